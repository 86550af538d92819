# SPDX-License-Identifier: BSD-3-Clause
"""Run the same programs on inferd's runtime and on the original, in turn: latency, overhead, loading.

These are rows of bench.py, which passes its module for the functions that both use. Each measurement is a new process,
original first, then ours, so that both of a pair run under the same conditions. Inputs are zeros of the largest shapes on both sides.
"""
import pathlib
import subprocess
import tempfile
import time

# What, file, threads, bar. The bars are those of the README.
LATENCY = [
    ("EfficientNet-Lite0 fp32", "efficientnet_lite0/xnnpack.bpte", 1, 1.02),
    ("EfficientNet-Lite0 int8", "efficientnet_lite0/xnnpack_int8.bpte", 1, 1.02),
    ("YOLO11n", "yolo/yolo11n_xnnpack.bpte", 1, 1.02),
    ("MiniLM qd8", "minilm/xnnpack_qd8.bpte", 1, 0.90),
    ("encoder_dynamic", "programs/encoder_dynamic_xnnpack.bpte", 1, 1.02),
    ("silero_vad", "silero_vad/xnnpack.bpte", 1, 1.02),
    ("EfficientNet-Lite0 fp32, two threads", "efficientnet_lite0/xnnpack.bpte", 2, 1.00),
]
LOADS = LATENCY[:-1]
PORTABLE = ("EfficientNet-Lite0, portable", "efficientnet_lite0/portable.bpte", 0.05)
CERTAIN_S = 2.5  # how long a file must have lain still before the cache trusts its times


class Versus:
    def __init__(self, bench, setup, folder):
        self.bench, self.setup, self.folder = bench, setup, pathlib.Path(folder)

    def program(self, name):
        path = self.bench.SHARED / name
        return self.bench.program_of(path, self.folder) if path.exists() else None

    def original(self, program, threads, runs):
        return self.setup.json_of(self.setup.peer, threads, runs, 1, program)

    def pairs(self, program, threads, runs, field, **options):
        """[(original, ours)], as many as asked for."""
        rows = []
        for _ in range(self.setup.pairs):
            a = self.original(program, threads, runs)[field]
            b = self.setup.local(program, threads=threads, requests=runs, **options)[field]
            rows.append((a, b))
        return rows

    def row(self, what, rows, bar):
        a, b = (self.bench.median(r[i] for r in rows) for i in range(2))
        ratio = self.bench.median(r[1] / r[0] for r in rows)
        out = self.bench.row(what, ratio, "≤", bar, " ×") if bar else {"what": what, "value": f"{ratio:.3g} ×"}
        out["value"] += f" ({b:.3g} ms, the original {a:.3g} ms)"
        return out


def left_out(what, why):
    return {"what": what, "value": f"left out: {why}"}


def benches(bench):
    """Name -> function of Setup, as bench.BENCHES has them."""

    def with_peer(measure, what):
        def run(setup):
            if not setup.peer:
                return [left_out(what, "neither --peer nor --build-peer")]
            with tempfile.TemporaryDirectory(prefix="inferd-versus-") as folder:
                return measure(Versus(bench, setup, folder))
        return run

    def latency(v):
        out = []
        for what, name, threads, bar in LATENCY:
            program = v.program(name)
            if not program:
                out.append(left_out(what, f"{name} is not there"))
                continue
            out.append(v.row(f"{what}: p50 of a run", v.pairs(program, threads, v.setup.requests, "p50_ms"), bar))
        return out

    def operators(v):
        rows = []
        for of, args in (("", []), (" of int64", ["int64"])):
            program = v.folder / f"tiny{len(rows)}.pte"
            subprocess.run([str(v.setup.build / "tests" / "bench" / "make_tiny"), "1000", str(program), *args], check=True)
            rows.append(v.row(f"a program of 1,000 tiny operators{of}: p50 of a run",
                              v.pairs(program, 1, 1000, "p50_ms"), 1.0))
        return rows

    def portable(v):
        what, name, bar = PORTABLE
        program = v.program(name)
        if not program:
            return [left_out(what, f"{name} is not there")]
        return [v.row(f"{what}: best of three runs", v.pairs(program, 1, 3, "min_ms"), bar)]

    def loading(v):
        """First: nothing kept. Again: packed weights mapped from the cache that an earlier process left, beside the original
        without a cache and with its own. Until it is ready to run, and until the first answer is there."""
        out = []
        for what, name, _, _ in LOADS:
            program = v.program(name)
            if not program:
                out.append(left_out(what, f"{name} is not there"))
                continue
            cache, theirs = v.folder / "cache", v.folder / f"{program.stem}.original"
            cache.mkdir(mode=0o700, exist_ok=True)

            def original():
                ran = v.original(program, 1, 1)
                return ran["load_ms"], ran["load_ms"] + ran["p50_ms"]

            def original_cached(do="load"):
                ran = v.setup.json_of(v.setup.peer_cache, theirs, do, program)
                return ran["load_ms"], ran["load_ms"] + ran["first_run_ms"]

            def ours(**options):
                ran = v.setup.local(program, requests=1, **options, **{"warm-up": 1})
                return ran["load_ms"], ran["first_ms"]

            # One keeps the packed weights; another, later, sees that nobody has written to the files since. The cache
            # trusts their times when they are two seconds old, which the measurements between the two take.
            ours(cache=cache)
            if v.setup.peer_cache:
                original_cached("save")
            begin, first = time.monotonic(), []
            while len(first) < v.setup.pairs or time.monotonic() - begin < CERTAIN_S:
                first.append((original(), ours()))
            ours(cache=cache)
            again = [(original(), original_cached() if v.setup.peer_cache else None, ours(cache=cache))
                     for _ in range(v.setup.pairs)]
            for i, until in ((0, ""), (1, ", until the first answer")):
                bars = ((1.0, 0.25, 1.0), (None, None, None))[i]
                out.append(v.row(f"{what}: first load{until}", [(a[i], b[i]) for a, b in first], bars[0]))
                out.append(v.row(f"{what}: loaded again, against the original without its cache{until}",
                                 [(a[i], c[i]) for a, _, c in again], bars[1]))
                if v.setup.peer_cache:
                    out.append(v.row(f"{what}: loaded again, against the original with its cache{until}",
                                     [(b[i], c[i]) for _, b, c in again], bars[2]))
            if not v.setup.peer_cache:
                out.append(left_out(f"{what}: loaded again, against the original with its cache", "no --peer-cache"))
        return out

    return {"latency": with_peer(latency, "latency against the original"),
            "operators": with_peer(operators, "overhead of an operator against the original"),
            "portable": with_peer(portable, "portable kernels against the original"),
            "loading": with_peer(loading, "loading against the original")}
