#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run inferd's tests, leg by leg, and sum them up.

A leg is one build (a compiler, sanitizers, a cross file) and the meson suites
that run on it. Builds stay in build-test/NAME, so that a second run only builds
what changed. This runs inside Debian 13; `tools/test` is the command for people
and for the gate.

What must always be true:
  - Every test that meson knows in a leg is counted exactly once, by what meson
    wrote in its log of the leg: nothing that ran is left out of the sum.
  - A leg that does not configure, does not build, is killed, or has no test at
    all where everything was asked for, counts as a failure of its own.
  - A skipped test is named with its reason, before the sum.
  - The last line on standard output is "N passed, N failed, N skipped".
"""

import argparse
import fnmatch
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

# The tree under test; another one only where this file itself is tested.
TOP = os.environ.get("INFERD_TEST_TOP") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(TOP, "build-test")
CROSS = os.path.join(TOP, "tools", "cross", "aarch64.ini")

LOG_LINES = 150  # of a failing test's log, from its end


class Leg:
    """One line of the report: a build and what runs on it."""

    def __init__(self, name, text, build=None, cc="gcc", options=(), suites=(), without=(), patience=2, tests=(), wrap=None):
        self.name = name
        self.text = text
        self.build = build or name  # the folder; legs may share one
        self.cc = cc
        self.options = list(options)
        self.suites = set(suites)  # empty: all
        self.without = set(without)
        self.patience = patience  # times the limit that a test declares
        self.tests = set(tests)  # empty: all
        self.wrap = wrap  # a command to run each under

    def wants(self, test):
        if self.tests and test["name"] not in self.tests:
            return False
        suites = {s.split(":")[-1] for s in test["suite"]}
        if self.suites and not suites & self.suites:
            return False
        return not suites & self.without


RELEASE = ["-Doptimization=3"]  # what is installed is built so, and gcc warns of more then
LEGS = [
    Leg("lint", "the rules of the source tree", build="gcc", options=RELEASE, suites=["lint"]),
    Leg("gcc", "gcc, optimized: every suite", options=RELEASE, without=["lint", "fuzz"]),
    Leg("clang", "clang: unit tests", cc="clang", suites=["unit"]),
    Leg("asan", "AddressSanitizer and UndefinedBehaviorSanitizer: every suite", cc="clang",
        options=["-Db_sanitize=address,undefined"], without=["lint", "fuzz", "tools", "install"], patience=3),
    Leg("fuzz", "the fuzz corpora, replayed under the sanitizers", build="asan", cc="clang",
        options=["-Db_sanitize=address,undefined"], suites=["fuzz"], patience=3),
    Leg("tsan", "ThreadSanitizer: unit and end to end", cc="clang",
        options=["-Db_sanitize=thread"], suites=["unit", "e2e"], patience=4),
    Leg("aarch64", "cross-built for aarch64, unit tests under qemu-user",
        options=["--cross-file", CROSS], suites=["unit"], patience=10),
]
QUICK = ["tools", "lint", "gcc"]
if os.environ.get("INFERD_TEST_KERNEL"):  # tools/test --with kernel
    LEGS.append(Leg("kernel", "under Debian's own kernel, emulated: device memory, Landlock", build="gcc", options=RELEASE, patience=6,
                    tests=["ipc-region", "e2e-dma_buf", "plugins-process"], wrap=os.path.join(TOP, "tools", "kernel")))


class Sum:
    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []  # (leg, test, reason)
        self.partly = []  # (leg, test, case passed over)
        self.failures = []  # (leg, test, what, log)

    def line(self):
        return f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped"

    def fail(self, leg, test, what, log=""):
        self.failed += 1
        self.failures.append((leg, test, what, log))


def n_cpus():
    return len(os.sched_getaffinity(0))


def tail(text, n=LOG_LINES):
    lines = text.rstrip().splitlines()
    if len(lines) > n:
        lines = [f"... ({len(lines) - n} lines before)"] + lines[-n:]
    return "\n".join(lines)


def say(text, end="\n"):
    print(text, end=end, flush=True)


def call(argv, log, env=None):
    """Run @argv with everything it says in the file @log; its exit status."""
    with open(log, "wb") as out:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                              env=env, cwd=TOP).returncode


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError as e:
        return str(e)


def configure(leg, folder):
    """Make @folder a build folder for @leg, anew where its recipe changed. None, or the log of a failure."""
    argv = ["meson", "setup", folder, TOP, "--werror"] + leg.options
    env = dict(os.environ, CC=leg.cc)
    # Flags from outside would make every machine test another thing.
    for name in ("CFLAGS", "CPPFLAGS", "LDFLAGS", "PKG_CONFIG_PATH"):
        env.pop(name, None)
    recipe = json.dumps([leg.cc, argv])
    stamp = os.path.join(folder, "recipe")
    if os.path.exists(os.path.join(folder, "build.ninja")) and os.path.exists(stamp) and read(stamp) == recipe:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    log = os.path.join(WORK, leg.build + "-configure.log")
    if call(argv, log, env):
        return tail(read(log))
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(recipe)
    return None


def compile_all(leg, folder, jobs):
    log = os.path.join(WORK, leg.build + "-build.log")
    if call(["ninja", "-C", folder, "-k", "3", f"-j{jobs}", "all", "meson-test-prereq"], log):
        return tail(complaints(read(log)))
    return None


def complaints(text):
    """What ninja said of the targets that failed; all of it where it does not say so."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("FAILED: "):
            inside = True
        elif re.match(r"\[\d+/\d+\]|ninja: ", line):
            inside = False
        if inside and not re.match(r"\S*(gcc|clang)\S* .* -c ", line):
            kept.append(line)
    return "\n".join(kept) if kept else text


def reason_of(test):
    """Why a test said it was skipped: its line that says so, or its last one."""
    lines = [line.strip() for line in (test.get("stdout", "") + "\n" + test.get("stderr", "")).splitlines()]
    lines = [line for line in lines if line]
    for line in lines:
        if "skip" in line.lower():
            return line
    return lines[-1] if lines else "it gave no reason"


def partly_skipped(test):
    """The cases that a program passed over while others of it ran."""
    text = test.get("stdout", "") + test.get("stderr", "")
    return sorted({line.split("]", 1)[1].strip() for line in text.splitlines()
                   if line.startswith("[  SKIPPED ]") and "test(s)" not in line})


def run_leg(leg, args, total, built):
    """Build and test one leg, adding to @total. What it found, in one line."""
    folder = os.path.join(WORK, leg.build)
    if leg.build not in built:
        say("building, ", end="")
        log = configure(leg, folder)
        if log is None:
            log = compile_all(leg, folder, args.jobs)
        built[leg.build] = log is None
        if log is not None:
            total.fail(leg.name, "the build", "does not build", log)
            return "FAILED to build"
    elif not built[leg.build]:
        total.fail(leg.name, "the build", "does not build (as above)")
        return "FAILED to build"

    tests = json.loads(subprocess.check_output(["meson", "introspect", "--tests", folder]))
    names = [t["name"] for t in tests if leg.wants(t)]
    if args.pattern:
        names = [n for n in names if fnmatch.fnmatch(n, args.pattern) or args.pattern in n]
        if not names:
            return "nothing matches"
    elif not names:
        total.fail(leg.name, "the suites", f"no test at all in {', '.join(sorted(leg.suites)) or 'any suite'}")
        return "FAILED: no tests"

    say("testing ", end="")
    base = leg.name + ("-" + os.path.basename(leg.wrap) if leg.wrap else "")  # as meson calls them
    results = os.path.join(folder, "meson-logs", base + ".json")
    if os.path.exists(results):
        os.unlink(results)
    log = os.path.join(WORK, leg.name + "-test.log")
    argv = ["meson", "test", "-C", folder, "--no-rebuild", "--logbase", leg.name, "--no-suite", "bench", "--timeout-multiplier",
            str(leg.patience), "--num-processes", str(args.jobs)]
    for suite in sorted(leg.suites):
        argv += ["--suite", suite]
    for suite in sorted(leg.without):
        argv += ["--no-suite", suite]
    if leg.wrap:
        argv += ["--wrap", leg.wrap]
    status = call(argv + (names if args.pattern or leg.tests else []), log)

    counts = {"passed": 0, "failed": 0, "skipped": 0}
    seen = 0
    if os.path.exists(results):
        for text in read(results).splitlines():
            test = json.loads(text)
            seen += 1
            name = test["name"].split(" / ")[-1]
            if test["result"] in ("OK", "EXPECTEDFAIL"):
                total.passed += 1
                counts["passed"] += 1
                for case in partly_skipped(test):
                    total.partly.append((leg.name, name, case))
            elif test["result"] == "SKIP":
                total.skipped.append((leg.name, name, reason_of(test)))
                counts["skipped"] += 1
            else:
                output = test.get("stdout", "") + test.get("stderr", "")
                total.fail(leg.name, name, test["result"].lower(), tail(output))
                counts["failed"] += 1
    if seen != len(names) or (status and not counts["failed"]):
        total.fail(leg.name, "the run", f"{seen} of {len(names)} tests reported, meson ended with {status}",
                   tail(read(log)))
        counts["failed"] += 1
    return ", ".join(f"{n} {what}" for what, n in counts.items())


def add_host_results(total):
    """Count what tools/test tried on the host before it came here: `ok NAME`, `not ok NAME`, `skip NAME: WHY`."""
    path = os.path.join(WORK, "host.log")
    if not os.path.exists(path):
        return
    text = read(path)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for line in text.splitlines():
        if line.startswith("ok "):
            total.passed += 1
            counts["passed"] += 1
        elif line.startswith("skip "):
            name, _, why = line[5:].partition(": ")
            total.skipped.append(("tools", name, why))
            counts["skipped"] += 1
        elif line.startswith("not ok "):
            total.fail("tools", line[7:], "failed", tail(text))
            counts["failed"] += 1
        elif line.startswith("exit ") and not counts["failed"]:
            total.fail("tools", "the script", line, tail(text))
            counts["failed"] += 1
    say("      tools    " + ", ".join(f"{n} {what}" for what, n in counts.items()))


def report(total):
    for leg, test, what, log in total.failures:
        say(f"\n--- FAILED: {leg}: {test}: {what}")
        if log:
            say(log)
    if total.failures:
        say("\nFailed:")
        for leg, test, what, _ in total.failures:
            say(f"  {leg}: {test}: {what}")
    # A leg more or less skips the same test for the same reason: one line each.
    grouped = {}
    for leg, test, why in total.skipped:
        grouped.setdefault((test, why), []).append(leg)
    if grouped:
        say("\nSKIPPED:")
        for (test, why), legs in grouped.items():
            say(f"  {test} ({', '.join(legs)}): {why}")
    cases = {}
    for leg, test, case in total.partly:
        cases.setdefault((test, case), []).append(leg)
    if cases:
        say("\nCases passed over in tests that otherwise ran:")
        for (test, case), legs in cases.items():
            say(f"  {test}: {case} ({', '.join(legs)})")


def main():
    names = ["tools"] + [leg.name for leg in LEGS]
    parser = argparse.ArgumentParser(prog="tools/test", description="Run inferd's tests.")
    parser.add_argument("--with", metavar="WHAT", action="append",
                        help="those, too, that take openvino, export (ExecuTorch) or kernel (an emulated machine)")
    parser.add_argument("--quick", action="store_true", help="only " + ", ".join(QUICK))
    parser.add_argument("--only", metavar="LEG[,LEG]", action="append", help="only these legs")
    parser.add_argument("-k", dest="pattern", metavar="PATTERN", help="only tests whose name matches")
    parser.add_argument("-j", dest="jobs", type=int, default=n_cpus(), metavar="N", help="jobs at once")
    parser.add_argument("--list", action="store_true", help="print the legs and stop")
    args = parser.parse_args()
    if args.list:
        say("tools    tools/debian13, tried on the host")
        for leg in LEGS:
            say(f"{leg.name:8} {leg.text}")
        return 0
    only = QUICK if args.quick else names
    if args.only:
        only = ",".join(args.only).split(",")
        unknown = [n for n in only if n not in names]
        if unknown:
            parser.error(f"no leg is named {', '.join(unknown)}; there are: {', '.join(names)}")
    os.makedirs(WORK, exist_ok=True)

    total = Sum()
    add_host_results(total)
    legs = [leg for leg in LEGS if leg.name in only]
    built = {}
    start = time.monotonic()
    if not os.path.isdir(os.path.join(os.path.dirname(TOP), "shared")):
        say("../shared is absent: tests that need it will be skipped")
    for i, leg in enumerate(legs, 1):
        began = time.monotonic()
        say(f"[{i}/{len(legs)}] {leg.name:8} {leg.text}: ", end="")
        if leg.name == "aarch64" and platform.machine() == "aarch64":
            total.skipped.append((leg.name, "the leg", "this machine is aarch64 itself: the other legs ran natively"))
            say("skipped: this is aarch64")
            continue
        found = run_leg(leg, args, total, built)
        say(f"{found} ({time.monotonic() - began:.0f} s)")
    if args.pattern and not total.passed and not total.failed and not total.skipped:
        total.fail("-k", args.pattern, "no test's name matches")
    report(total)
    say(f"\n{time.monotonic() - start:.0f} s; builds and logs are in build-test/")
    with open(os.path.join(WORK, "summary"), "w", encoding="utf-8") as f:
        f.write(total.line() + "\n")
    say(total.line())
    return 1 if total.failed else 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))
    sys.exit(main())
