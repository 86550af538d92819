#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure requests while other processes use the cores, and under a CPU quota.

    tools/debian13 tests/bench/neighbours.py --build build-bench [--requests N] [--rounds N] [--peers] [--json] [PROGRAM...]

One client sends requests through the daemon, in process on all cores, and, with --peers, to ONNX Runtime in each of its
settings, of which the best counts. Beside it run as many busy loops of other processes as there are cores: ones that
compute, then ones that copy memory. Then without them, in a cgroup with a quota of 1.5 cores. The bars: the slowest
of 1,000 requests takes at most 10 times, the 99th percentile at most 3 times what half of the requests take in process
on one core, alone; and neither takes longer than with ONNX Runtime. The status is 1 if one is not met, and 2 if
something was not measured; the table says what, and why.

The quota takes root, and a hierarchy of cgroups (version 1 or 2) in which a group with the CPU controller can be made.

--peers installs onnxruntime and onnx from PyPI into the user's cache folder, once. Their model is EfficientNet-Lite0;
other programs are compared with the first two bars only. Whoever needs figures runs this alone on the machine.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import bench
import packages

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["silero_vad/portable.pte", "efficientnet_lite0/xnnpack.bpte", "minilm/xnnpack_qd8.bpte"]
PEER_OF = "efficientnet_lite0/xnnpack.bpte"
SLOWEST, P99 = 10, 3
QUOTA_US, PERIOD_US = 150_000, 100_000
# Each ends when the process that started it has ended, however that was.
LOOPS = {
    "compute": "while os.getppid() == parent:\n for _ in range(1 << 20): pass",
    "memory": "a = bytearray(64 << 20); b = bytearray(64 << 20)\nwhile os.getppid() == parent: b[:] = a",
}
MAX_SECONDS = 3600  # of one measurement of ONNX Runtime


@contextlib.contextmanager
def busy_loops(kind, n):
    """@n processes that use a core each."""
    processes = []
    try:
        for _ in range(n):
            # Python loses a KeyboardInterrupt that arrives while it forks for a preexec_fn, so there is none.
            processes.append(subprocess.Popen(
                [sys.executable, "-c", f"import os; parent = {os.getpid()}; os.write(1, b'.')\n{LOOPS[kind]}"],
                stdout=subprocess.PIPE))
        for process in processes:
            process.stdout.read(1)
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            process.stdout.close()


class NotMeasured(Exception):
    pass


def unescaped(path):
    return pathlib.Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), path))


def places_for_quota():
    """(group that this process is in, folder where a group with a quota may be made, its version), the best first."""
    own = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own.update({name: path for name in controllers.split(",")})
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, at, kind, options = line.split()[:4]
        if kind == "cgroup" and "cpu" in options.split(",") and "cpu" in own:
            before = unescaped(at) / own["cpu"].lstrip("/")
            yield before, before, 1
        elif kind == "cgroup2" and "" in own:
            # A group that has processes can give no controller to groups within it, but for the root.
            before = unescaped(at) / own[""].lstrip("/")
            for folder in (before, *before.parents):
                if (folder / "cgroup.controllers").exists():
                    yield before, folder, 2


def make_quota(parent, version):
    folder = parent / f"inferd-neighbours-{os.getpid()}"
    if version == 2 and "cpu" not in (parent / "cgroup.subtree_control").read_text().split():
        (parent / "cgroup.subtree_control").write_text("+cpu")
    folder.mkdir()
    try:
        if version == 1:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        else:
            (folder / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        folder.rmdir()
        raise
    return folder


@contextlib.contextmanager
def quota():
    """A cgroup of 1.5 cores that this process, and what it starts, is in meanwhile."""
    folder, failures = None, []
    for before, parent, version in places_for_quota():
        try:
            folder = make_quota(parent, version)
            break
        except OSError as e:
            failures.append(f"{parent}: {e.strerror}")
    if not folder:
        raise NotMeasured("no cgroup with a CPU quota can be made: " + ("; ".join(failures) or "none has the CPU controller"))
    try:
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        folder.rmdir()


class Peer:
    """ONNX Runtime in the user's cache folder."""

    def __init__(self, cores):
        environment = packages.environment("onnxruntime", "onnx")
        self.python, self.graph = environment / "bin" / "python", environment / "efficientnet_lite0.onnx"
        self.settings = [(threads, spinning) for threads in sorted({1, cores}) for spinning in ((0, 1) if threads > 1 else (0,))]
        if not self.graph.exists():
            subprocess.run([str(self.python), str(HERE / "onnx_peer.py"), "make", str(self.graph)], check=True)

    def measure(self, n):
        """The best setting's times."""
        results = []
        for threads, spinning in self.settings:
            done = subprocess.run([str(a) for a in (self.python, HERE / "onnx_peer.py", "run", self.graph, threads, spinning,
                                                    MAX_SECONDS, n)], check=True, capture_output=True, text=True)
            setting = f"{threads} thread{'s' if threads > 1 else ''}{', spinning' if spinning else ''}"
            results.append(dict(json.loads(done.stdout), setting=setting))
        return min(results, key=lambda r: (r["p99_ms"], r["max_ms"]))


class Neighbours:
    def __init__(self, setup, options):
        self.setup, self.options = setup, options
        self.peer = Peer(setup.cores) if options.peers else None

    def worst(self, rounds):
        """Of all rounds: the slowest request, the median of the other figures."""
        out = dict(rounds[0])
        for field in ("p50_ms", "p99_ms"):
            out[field] = bench.median(r[field] for r in rounds)
        out["max_ms"] = max(r["max_ms"] for r in rounds)
        return out

    def ways(self, name, program, n):
        """{way: function that measures it once}."""

        def daemon():
            with bench.daemon(self.setup, {"model": program}) as d:
                return self.setup.remote(d, "model", requests=n)

        ways = {"daemon": daemon, "in process": lambda: self.setup.local(program, threads=self.setup.cores, requests=n)}
        if self.peer and name.endswith(PEER_OF):
            ways["ONNX Runtime"] = lambda: self.peer.measure(n)
        return ways

    def condition(self, kind):
        return quota() if kind == "quota" else busy_loops(kind, self.setup.cores)

    def measure(self, name, program):
        base = self.setup.json_of(self.setup.inferctl, "bench", "--local", "--json", "--requests", 50, program,
                                  core=min(os.sched_getaffinity(0)))["p50_ms"]
        n = self.options.requests
        rows = []
        for kind in (*LOOPS, "quota"):
            results = {}
            try:
                for _ in range(self.options.rounds):
                    for way, run in self.ways(name, program, n).items():
                        with self.condition(kind):
                            results.setdefault(way, []).append(run())
            except NotMeasured as e:
                rows.append({"program": name, "beside": kind, "not_measured": str(e)})
                continue
            results = {way: self.worst(rounds) for way, rounds in results.items()}
            rows += [row(name, kind, way, result, base, n, results.get("ONNX Runtime")) for way, result in results.items()]
        return rows


def row(name, kind, way, result, base, n, peer):
    out = {"program": name, "beside": kind, "way": way, "base_ms": base, "requests": result.get("n", n),
           **{field: result[field] for field in ("p50_ms", "p99_ms", "max_ms")}}
    if "setting" in result:
        out["way"] += f" ({result['setting']})"
        return out
    out["missed"] = [f"slowest ≤ {SLOWEST} ×"] * (result["max_ms"] > SLOWEST * base)
    out["missed"] += [f"p99 ≤ {P99} ×"] * (result["p99_ms"] > P99 * base)
    if peer:
        out["missed"] += ["slowest ≤ ONNX Runtime's"] * (result["max_ms"] > peer["max_ms"])
        out["missed"] += ["p99 ≤ ONNX Runtime's"] * (result["p99_ms"] > peer["p99_ms"])
    return out


def print_rows(rows):
    print("| program | beside | way | requests | p50 alone on one core | p50 | p99 | slowest | bars |\n|" + "---|" * 9)
    for r in rows:
        if "not_measured" in r:
            print(f"| {r['program']} | {r['beside']} |" + " |" * 6 + f" NOT MEASURED: {r['not_measured']} |")
            continue
        times = " | ".join(f"{r[f]:.3g} ms ({r[f] / r['base_ms']:.2g} ×)" for f in ("p50_ms", "p99_ms", "max_ms"))
        bars = "" if "missed" not in r else "not met: " + ", ".join(r["missed"]) if r["missed"] else "met"
        print(f"| {r['program']} | {r['beside']} | {r['way']} | {r['requests']} | {r['base_ms']:.3g} ms | {times} | {bars} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--requests", type=int, default=1000, help="a measurement (default: 1000)")
    parser.add_argument("--rounds", type=int, default=1, help="measurements of each kind, in turn (default: 1)")
    parser.add_argument("--peers", action="store_true", help="ONNX Runtime as well")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=".pte or .bpte (default: three of shared/models)")
    options = parser.parse_args()
    setup = bench.Setup(argparse.Namespace(build=options.build, pairs=1, requests=options.requests, seconds=10,
                                           peer=None, peer_cache=None, batches=None))
    neighbours = Neighbours(setup, options)
    if not neighbours.peer:
        print("neighbours: ONNX Runtime is left out: --peers installs it", file=sys.stderr)
    rows = []
    with tempfile.TemporaryDirectory(prefix="inferd-neighbours-") as folder:
        for name in options.programs or PROGRAMS:
            path = pathlib.Path(name) if options.programs else bench.SHARED / name
            if not path.exists():
                rows.append({"program": name, "beside": "all", "not_measured": f"{path} is not there"})
                continue
            rows += neighbours.measure(name, bench.program_of(path, folder))
    if options.json:
        print(json.dumps({"machine": bench.machine(), "rows": rows}, indent=2))
    else:
        print(f"{bench.machine()}\n")
        print_rows(rows)
    if any("not_measured" in r for r in rows):
        return 2
    return 1 if any(r.get("missed") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
