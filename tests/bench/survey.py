#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare inferd's runtime with the original one on any programs: run time, first load, peak memory.

    tools/debian13 tests/bench/survey.py --build build --peer RUNNER [--pairs N] [--ms MS] [--threads N] [--json] DIR|FILE...

Each program (`.pte`, or the one inside a `.bpte` without a `.pte` beside it) runs in new processes, the original's and
ours in turn, on zeros of the largest shapes. The table has the medians of the pairs' ratios, worst first: p50 of a run,
time of the first load (without a cache), and peak resident memory. RUNNER is built by tests/bench/peer.sh. Programs that
the original cannot run are listed below the table. The status is 1 if we cannot run one that the original can, or if a
bar (1.02, 1, 1) is not met.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench

BARS = {"run": 1.02, "load": 1.0, "memory": 1.0}
MOST_RUNS = 2000


def programs(paths):
    """Files to run, each once: of a program and the same one bundled, the program."""
    for path in map(pathlib.Path, paths):
        if path.is_file():
            yield path
            continue
        for found in sorted(path.rglob("*.*pte")):
            if found.suffix == ".pte" or (found.suffix == ".bpte" and not found.with_suffix(".pte").exists()):
                yield found


def shown(path):
    """As much of its path as tells it from others of the kind."""
    return "/".join(path.with_suffix("").parts[-3:])


def measure(peak, command):
    """{run, load, memory}, in ms and kB; None where it failed."""
    done = subprocess.run([str(c) for c in (peak, *command)], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    *said, last = done.stdout.strip().splitlines()
    told = json.loads("\n".join(said))
    return {"run": told["p50_ms"], "load": told["load_ms"], "memory": json.loads(last)["peak_kb"]}


class Survey:
    def __init__(self, options):
        build = pathlib.Path(options.build).resolve()
        self.peak, self.inferctl = build / "tests" / "bench" / "peak", build / "clients" / "inferctl" / "inferctl"
        self.options = options

    def original(self, program, n):
        return measure(self.peak, (self.options.peer, self.options.threads, n, 1, program))

    def ours(self, program, n):
        return measure(self.peak, (self.inferctl, "bench", "--local", "--json", "--threads", self.options.threads,
                                   "--requests", n, program))

    def of(self, program):
        """What was measured of it, or {"why": …}."""
        a, b = self.original(program, 3), self.ours(program, 3)
        if not a or not b:
            return {"why": "the original cannot run it" if not a else "only the original can run it", "is_ours": bool(b)}
        n = max(5, min(MOST_RUNS, int(self.options.ms / max(a["run"], 1e-3))))
        pairs = [(self.original(program, n), self.ours(program, n)) for _ in range(self.options.pairs)]
        return {name: {"ratio": statistics.median(b[name] / max(a[name], 1e-3) for a, b in pairs),
                       "original": statistics.median(a[name] for a, _ in pairs),
                       "ours": statistics.median(b[name] for _, b in pairs)} for name in BARS}


def table(found):
    measured = sorted((r for r in found if "why" not in r), key=lambda r: -r["run"]["ratio"])
    print("| program | run | load | peak memory |\n|---|---|---|---|")
    for r in measured:
        cells = [f"{r[name]['ratio']:.2f} ({scale(r[name]['ours'])} / {scale(r[name]['original'])}){mark(name, r)}"
                 for name, scale in (("run", "{:.3g} ms".format), ("load", "{:.3g} ms".format),
                                     ("memory", lambda kb: f"{kb / 1024:.1f} MiB"))]
        print(f"| {r['program']} | {' | '.join(cells)} |")
    for r in found:
        if "why" in r:
            print(f"{r['program']}: {r['why']}")


def mark(name, result):
    return "" if result[name]["ratio"] <= BARS[name] else " !"


def is_met(result):
    if "why" in result:
        return not result["why"].startswith("only")
    return not any(mark(name, result) for name in BARS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--peer", required=True, help="runner of the original runtime")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs a program (default: 5)")
    parser.add_argument("--ms", type=float, default=100, help="how long to run, each time, in ms (default: 100)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each program")
    parser.add_argument("path", nargs="+", help="folders, or programs")
    options = parser.parse_args()
    survey, found = Survey(options), []
    with tempfile.TemporaryDirectory(prefix="inferd-survey-") as folder:
        for path in programs(options.path):
            result = {"program": shown(path)} | survey.of(bench.program_of(path, folder))
            found.append(result)
            if options.json:
                print(json.dumps(result), flush=True)
    if not options.json:
        print(f"{bench.machine()}; medians of {options.pairs} interleaved pairs, {options.threads} thread(s)\n")
        table(found)
    return 0 if all(map(is_met, found)) else 1


if __name__ == "__main__":
    sys.exit(main())
