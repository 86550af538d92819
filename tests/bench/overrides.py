#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What each override of the XNNPACK delegate gains (docs/overrides.md): programs with one override on and off, in turn.

    tools/debian13 tests/bench/overrides.py --build build [--pairs N] [--ms MS] [--threads N] [--only NAME,...] [--json]
                                            [DIR|FILE...]

Without paths: all programs of ../shared/models with XNNPACK payloads. A program is profiled once, which shows the overrides it uses. For each of them
two processes run in turn, with and without that override (option overrides of [backend xnnpack]), and once more with and
without all of them. A row of the table has the median of the pairs' ratios of the p50 and the ratio of the best runs: above 1 the
override gains. Overrides that go on and off together share a row. An override that the program needs for right numbers cannot be
switched off; it is listed below the table.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench
import survey

MOST_RUNS = 2000


class Overrides:
    def __init__(self, options, folder):
        self.inferctl = pathlib.Path(options.build).resolve() / "clients" / "inferctl" / "inferctl"
        self.options, self.folder = options, pathlib.Path(folder)

    def local(self, program, setting, requests, *more):
        """`inferctl bench` with the option overrides = @setting; None where the program cannot run here."""
        config = self.folder / "inferd.conf"
        config.write_text(f"[backend xnnpack]\noverrides = {setting}\n")
        command = [self.inferctl, "bench", "--local", "--json", "--config", config, "--threads", self.options.threads,
                   "--requests", requests, *more, program]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def used(self, program, setting):
        """The names of the overrides in a profile."""
        profile = self.folder / "profile.json"
        if not self.local(program, setting, 1, "--profile", profile):
            return frozenset()
        events = json.loads(profile.read_text())["traceEvents"]
        return frozenset(event["name"].split()[1] for event in events if event["name"].startswith("override "))

    def settings(self, program):
        """[(names that go on and off together, setting without them)], and the names that the program needs."""
        names = self.used(program, "all")
        rows, needed = collections.defaultdict(list), []
        for name in sorted(names):
            gone = names - self.used(program, f"-{name}")
            if name not in gone:
                needed.append(name)
            elif not self.options.only or name in self.options.only:
                rows[gone].append(name)
        settings = [(", ".join(sorted(gone)), f"-{tried[0]}") for gone, tried in rows.items()]
        return settings + ([("all of these", "none")] if len(settings) > 1 else []), needed

    def measure(self, program, setting):
        first = self.local(program, "all", 3)
        requests = max(5, min(MOST_RUNS, int(self.options.ms / max(first["p50_ms"], 1e-3))))
        pairs = []
        for i in range(self.options.pairs):  # each in front in every other pair
            order = ("all", setting) if i % 2 == 0 else (setting, "all")
            ran = {s: self.local(program, s, requests) for s in order}
            pairs.append((ran["all"], ran[setting]))
        best = [min(pair[i]["min_ms"] for pair in pairs) for i in range(2)]
        return {"on_ms": statistics.median(on["p50_ms"] for on, _ in pairs),
                "off_ms": statistics.median(off["p50_ms"] for _, off in pairs),
                "ratio": statistics.median(off["p50_ms"] / on["p50_ms"] for on, off in pairs),
                "best": best[1] / best[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--pairs", type=int, default=9, help="interleaved pairs a row (default: 9)")
    parser.add_argument("--ms", type=float, default=300, help="how long to run, each time, in ms (default: 300)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), help="these overrides")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    parser.add_argument("path", nargs="*", default=[bench.SHARED], help="folders, or programs")
    options = parser.parse_args()
    needs = []
    if not options.json:
        print(f"{bench.machine()}; {options.pairs} interleaved pairs, {options.threads} thread(s)\n\n"
              "| program | override | on, off (p50) | off / on | best off / best on |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="inferd-overrides-") as folder:
        overrides = Overrides(options, folder)
        for path in survey.programs(options.path):
            program = bench.program_of(path, folder)
            if b"XnnpackBackend" not in program.read_bytes():
                continue
            settings, needed = overrides.settings(program)
            needs += [f"{survey.shown(path)}: {', '.join(needed)}"] if needed else []
            for names, setting in settings:
                row = {"program": survey.shown(path), "override": names} | overrides.measure(program, setting)
                print(json.dumps(row) if options.json else
                      "| {program} | {override} | {on_ms:.3g} ms, {off_ms:.3g} ms | {ratio:.3f} | {best:.3f} |".format(**row),
                      flush=True)
    if not options.json and needs:
        print("\nNeeded for right numbers, so always on:")
        print("\n".join(needs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
