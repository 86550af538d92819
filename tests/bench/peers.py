#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare inferd's runtime with ONNX Runtime, OpenVINO and ncnn on the same networks with the same weights and inputs.

    tools/export/export --peers --out DIR          # once: programs, ONNX graphs, TorchScript
    tools/debian13 tests/bench/peers.py --build build-bench --models DIR [--threads N,...] [--rounds N] [--json] [NETWORK...]
    tools/debian13 tests/bench/peers.py --table FILE...      # of several --json, one table

The first run installs the engines from PyPI (packages.py) in the user's cache folder. ncnn's networks are made by pnnx;
int8 graphs by ONNX Runtime's static quantization, which OpenVINO reads, too. Outputs are compared with PyTorch's first: an
engine whose outputs are wrong is not timed. Then each round has one process for each engine, in turn. An engine's time is the
median over the rounds of its p50; ratios are ours over that of the fastest engine, the median over the rounds, and of the best
rounds. Ours is `inferctl bench --local`; theirs run from Python, which adds some microseconds to a run.

The bar is a geometric mean of at most 0.9; networks above 1.05 are listed. The status is 1 if the bar is not met or our outputs are
wrong, and 2 if a network was compared with nothing. Whoever needs figures runs this alone on the machine.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench
import packages

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "ncnn": "ncnn"}
OURS = "inferd"
PROGRAMS = {"fp32": "xnnpack.bpte", "int8": "xnnpack_int8.bpte"}
TOLERANCES = {"fp32": 1e-3, "int8": 0.3}  # relative; int8 against PyTorch's outputs before quantization
MEAN, EACH = 0.9, 1.05
MOST_RUNS = 2000


class LeftOut(Exception):
    """Why an engine is not compared."""


def answer(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise LeftOut((done.stderr.strip().splitlines() or [f"it ends with {done.returncode}"])[-1][:200])
    return done.stdout


class Peers:
    def __init__(self, options, python, engine=HERE / "peer_engine.py"):
        self.options, self.python, self.engine = options, python, engine
        self.inferctl = pathlib.Path(options.build).resolve() / "clients" / "inferctl" / "inferctl"

    def asked(self, *args):
        found = json.loads(answer(self.python, "-B", self.engine, *args))
        if "failure" in found:
            raise LeftOut(found["failure"])
        return found

    def once(self, engine, folder, kind, threads, n):
        """One process: {p50_ms}, and of another engine {error, version}."""
        if engine != OURS:
            return self.asked("run", engine, folder, kind, threads, n)
        return json.loads(answer(self.inferctl, "bench", "--local", "--json", "--threads", threads, "--requests", n,
                                 folder / PROGRAMS[kind]))

    def our_error(self, folder, kind, n_outputs):
        with tempfile.TemporaryDirectory(prefix="inferd-peers-") as place:
            files = [f"{place}/{i}.npy" for i in range(n_outputs)]
            answer(self.inferctl, "infer", "--local", *(word for file in files for word in ("--output", file)),
                   folder / PROGRAMS[kind])
            return self.asked("compare", folder, *files)["error"]

    def first(self, engine, folder, kind, threads, prepared):
        """A short run, whose outputs are right; LeftOut."""
        if engine in prepared["left_out"]:
            raise LeftOut(prepared["left_out"][engine])
        found = self.once(engine, folder, kind, threads, 5)
        error = self.our_error(folder, kind, prepared["outputs"]) if engine == OURS else found["error"]
        if not error <= TOLERANCES[kind]:
            raise LeftOut(f"its outputs are wrong by {error:.2g}")
        return {"p50_ms": found["p50_ms"], "error": error, "version": found.get("version", "")}

    def measure(self, folder, kind, threads, prepared):
        """A row: {network, type, threads, engines: {name: {p50_ms, best_ms, error, version} or {left_out}}}, and ratios."""
        engines, rounds = {}, {}
        for name in (OURS, *ENGINES):
            try:
                engines[name], rounds[name] = self.first(name, folder, kind, threads, prepared), []
            except LeftOut as why:
                engines[name] = {"left_out": str(why)}
        runs = {name: max(9, min(MOST_RUNS, int(self.options.ms / max(engines[name]["p50_ms"], 1e-3)))) for name in rounds}
        for _ in range(self.options.rounds):
            for name, n in runs.items():
                rounds[name].append(self.once(name, folder, kind, threads, n))
        return row(folder.name, kind, threads, engines, rounds)


def row(network, kind, threads, engines, rounds):
    for name, found in rounds.items():
        engines[name] |= {"p50_ms": statistics.median(r["p50_ms"] for r in found), "best_ms": min(r["p50_ms"] for r in found)}
    out = {"network": network, "type": kind, "threads": threads, "engines": engines}
    others = [name for name in rounds if name != OURS]
    if OURS in rounds and others:
        fastest = min(others, key=lambda name: engines[name]["p50_ms"])
        out |= {"fastest": fastest, "best_ratio": engines[OURS]["best_ms"] / min(engines[name]["best_ms"] for name in others),
                "ratio": statistics.median(a["p50_ms"] / b["p50_ms"] for a, b in zip(rounds[OURS], rounds[fastest]))}
    return out


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def means(rows):
    """{threads: (p50, best rounds)}"""
    found = {}
    for r in rows:
        if "ratio" in r:
            found.setdefault(r["threads"], []).append((r["ratio"], r["best_ratio"]))
    return {threads: tuple(map(geometric_mean, zip(*ratios))) for threads, ratios in sorted(found.items())}


def cell(engine, fastest):
    if "left_out" in engine:
        return "—"
    return f"{'**' * fastest}{engine['p50_ms']:.3g} / {engine['best_ms']:.3g}{'**' * fastest}"


def table(rows):
    lines = ["| network | threads | inferd | " + " | ".join(ENGINES.values()) + " | p50 over the fastest's | best rounds |",
             "|" + "---|" * (5 + len(ENGINES))]
    for r in rows:
        ratios = f"{r['ratio']:.2f} | {r['best_ratio']:.2f}" if "ratio" in r else "— | —"
        cells = " | ".join(cell(r["engines"][name], name == r.get("fastest")) for name in (OURS, *ENGINES))
        lines.append(f"| {r['network']}{'' if r['type'] == 'fp32' else ' ' + r['type']} | {r['threads']} | {cells} | {ratios} |")
    for threads, (p50, best) in means(rows).items():
        lines.append(f"| geometric mean | {threads} |" + " |" * (1 + len(ENGINES)) +
                     f" {p50:.2f}{'' if p50 <= MEAN else ', not met'} | {best:.2f} |")
    lines += ["", f"p50 / best round, ms; bar: a geometric mean of at most {MEAN}."]
    slow = sorted((r for r in rows if r.get("ratio", 0) > EACH), key=lambda r: -r["ratio"])
    named = [f"{r['network']} {r['type']} {r['threads']} ({r['ratio']:.2f})" for r in slow]
    lines.append(f"Above {EACH} (network, type, threads): " + (", ".join(named) or "none") + ".")
    why = {}
    for r in rows:
        for name, engine in r["engines"].items():
            if "left_out" in engine:
                why.setdefault((ENGINES.get(name, OURS), engine["left_out"]), {})[f"{r['network']} {r['type']}"] = None
    return lines + [f"Without {name}: {', '.join(networks)}: {said}" for (name, said), networks in why.items()]


def status(rows):
    if any("left_out" in r["engines"][OURS] for r in rows) or any(p50 > MEAN for p50, _ in means(rows).values()):
        return 1
    return 2 if not rows or any("ratio" not in r for r in rows) else 0


def versions(rows):
    return ", ".join(f"{shown} {version}" for name, shown in ENGINES.items() for version in
                     sorted({r["engines"][name]["version"] for r in rows if "version" in r["engines"][name]}))


def networks(options):
    """[(folder, type)], in the order of their names unless some are named."""
    place = pathlib.Path(options.models).resolve() / "peers"
    wanted = options.networks or sorted(path.parent.name for path in place.glob("*/onnx.npz"))
    found = []
    for name in wanted:
        kinds = [kind for kind, program in PROGRAMS.items() if (place / name / program).exists()]
        if not kinds or not (place / name / "onnx.npz").exists():
            print(f"peers: {place / name} has no program or no onnx.npz", file=sys.stderr)
            continue
        found += [(place / name, kind) for kind in kinds]
    return found or sys.exit(f"peers: {place} has no networks: tools/export/export --peers --out {options.models}")


def measured(options):
    python = packages.environment("onnxruntime", "onnx", "openvino", "ncnn") / "bin" / "python"
    peers, rows, chosen = Peers(options, python), [], networks(options)
    prepared = {folder: peers.asked("prepare", folder) for folder in dict.fromkeys(folder for folder, _ in chosen)}
    for folder, kind in chosen:
        for threads in options.threads:
            print(f"peers: {folder.name} {kind}, {threads} threads", file=sys.stderr, flush=True)
            rows.append(peers.measure(folder, kind, threads, prepared[folder]))
    return {"machine": bench.machine(), "rounds": options.rounds, "rows": rows}


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--models", default="exported", help="where tools/export has put its files (default: exported)")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=sorted({1, min(2, cores), cores}),
                        help="how many for a run, comma-separated (default: 1, 2 and all cores)")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved (default: 9)")
    parser.add_argument("--ms", type=float, default=200, help="how long to run, each time (default: 200)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="measure nothing; the table of these --json")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="folders of DIR/peers (default: all)")
    options = parser.parse_args()
    try:
        parts = [json.loads(pathlib.Path(file).read_text()) for file in options.table] if options.table else [measured(options)]
    except LeftOut as why:  # when it was prepared, or after its outputs were right
        sys.exit(f"peers: {why}")
    rows = [r for part in parts for r in part["rows"]]
    if options.json:
        print(json.dumps(parts[0] | {"rows": rows}, indent=2))
    else:
        print(f"{parts[0]['machine']}; {parts[0]['rounds']} interleaved rounds; {versions(rows)}\n")
        print("\n".join(table(rows)))
    return status(rows)


if __name__ == "__main__":
    sys.exit(main())
