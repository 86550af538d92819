#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run inferd's tests, leg by leg, and count the results.

A leg is one build (a compiler, sanitizers, a cross file) and the meson suites
that run on it. Builds stay in build-test/NAME, so that a second run builds only
what has changed. This runs inside Debian 13; people and the gate use `tools/test`.

What must always be true:
  - Each test of a leg that meson lists is counted exactly once, by its result in
    meson's log.
  - A leg that does not configure or build, that is killed, or that has no test
    although all tests were asked for, counts as one failure.
  - Each skipped test is named with its reason, before the sum.
  - Each step says when it begins, how far it is once a minute, and when it ends,
    on a line of its own, so that a log shows what a run waits for. Building and
    testing are reported and timed apart.
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

# The tree under test. test_run.py sets another one.
TOP = os.environ.get("INFERD_TEST_TOP") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(TOP, "build-test")
CROSS = os.path.join(TOP, "tools", "cross", "aarch64.ini")

LOG_LINES = 150  # of a failing test's log, from its end
TICK_S = 60  # between two lines on how far a step is


class Leg:
    """One line of the report: a build and what runs on it."""

    def __init__(self, name, text, build=None, cc="gcc", options=(), suites=(), without=(), patience=2, tests=(), wrap=None,
                 only=(), left_out=(), env=None, hides=None):
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
        self.only = tuple(only)  # beginnings of names; empty: all
        self.left_out = tuple(left_out)  # beginnings of names
        self.env = dict(env or {})  # of the tests
        self.hides = hides  # the leg hides this feature of the processor (a flag of /proc/cpuinfo)

    def wants(self, test):
        if self.tests and test["name"] not in self.tests:
            return False
        if self.only and not test["name"].startswith(self.only) or test["name"].startswith(self.left_out):
            return False
        suites = {s.split(":")[-1] for s in test["suite"]}
        if self.suites and not suites & self.suites:
            return False
        return not suites & self.without

    def needless(self):
        """Why this machine has no need of the leg, or None."""
        if self.build == "aarch64" and platform.machine() == "aarch64":
            return "this machine is aarch64 itself: the other legs ran natively"
        if self.hides and self.hides not in read("/proc/cpuinfo").split():
            return f"this machine has no {self.hides} itself: the leg gcc ran without it"
        return None


RELEASE = ["-Doptimization=3"]  # as installed; gcc also warns of more then
LEGS = [
    Leg("lint", "the rules of the source tree", build="gcc", options=RELEASE, suites=["lint"]),
    Leg("gcc", "gcc, optimized: every suite", options=RELEASE, without=["lint", "fuzz", "boot", "rusticl"]),
    Leg("boot", "the Debian packages on a booted system", build="gcc", options=RELEASE, suites=["boot"]),
    Leg("asan", "AddressSanitizer and UndefinedBehaviorSanitizer: every suite", cc="clang",
        options=["-Db_sanitize=address,undefined"], without=["lint", "fuzz", "tools", "install", "boot", "rusticl"], patience=3),
    Leg("fuzz", "the fuzz corpora, replayed under the sanitizers", build="asan", cc="clang",
        options=["-Db_sanitize=address,undefined"], suites=["fuzz"], patience=3),
    Leg("tsan", "ThreadSanitizer: unit, end to end, hostile", cc="clang",
        options=["-Db_sanitize=thread"], suites=["unit", "e2e", "hostile"], patience=4,
        left_out=["opencl-fast", "opencl-kernels"] + ["kernels-" + name for name in (
            "cadence", "elementwise", "float", "fp16", "gemm", "hostile", "llama", "looks", "movement", "norm", "outside",
            "overloads", "quantized", "reduce", "rounding", "span", "tables", "tile", "ukernels")]),  # they have one thread
    Leg("avx2", "x86-64 without AVX-512: XNNPACK and kernels", build="gcc", options=RELEASE, suites=["unit", "conformance"],
        only=["kernels-", "xnnpack-", "verify-corpus", "verify-whole-corpus"], hides="avx512f",
        env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F"}),
    Leg("aarch64", "cross-built for aarch64, unit tests under qemu-user, on a processor that has everything",
        options=["--cross-file", CROSS], suites=["unit"], patience=10, env={"QEMU_CPU": "max"},
        left_out=["xnnpack-allocator"]),  # minutes under emulation, and nothing of it depends on the processor
    Leg("cortex-a53", "the same build on a processor of Armv8.0, without fp16: XNNPACK", build="aarch64",
        options=["--cross-file", CROSS], suites=["unit", "conformance"], patience=10, only=["xnnpack-", "verify-corpus"],
        left_out=["xnnpack-allocator"],
        env={"QEMU_CPU": "cortex-a53", "INFERD_EMULATOR": "qemu-aarch64"}),
]
QUICK = ["tools", "lint", "gcc"]
if os.environ.get("INFERD_TEST_KERNEL"):  # tools/test --with kernel
    LEGS.append(Leg("kernel", "under Debian's own kernel, emulated: device memory, Landlock", build="gcc", options=RELEASE, patience=6,
                    tests=["ipc-region", "e2e-dma_buf", "plugins-process", "gstreamer-pipelines", "python-dma_buf"], wrap=os.path.join(TOP, "tools", "kernel")))
if os.environ.get("INFERD_TEST_RUSTICL"):  # tools/test --with rusticl
    LEGS.append(Leg("rusticl", "OpenCL by Mesa's rusticl", build="gcc", options=RELEASE, suites=["rusticl"], patience=3))


class Sum:
    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []  # (leg, test, reason)
        self.partly = []  # (leg, test, skipped case)
        self.failures = []  # (leg, test, what, log)
        self.build_s = self.test_s = 0.0

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


def say(text):
    print(text, flush=True)


def tell(text):
    say("tools/test: " + text)


def how_far(log):
    """The last "[12/345]" of ninja or " 12/345" of meson in the file @log; empty if there is none."""
    found = re.findall(r"(?m)^ *\[?(\d+)/(\d+)\b", read(log))
    return f"{found[-1][0]} of {found[-1][1]}, " if found else ""


def call(argv, log, env=None, what=None):
    """Run @argv with its output in the file @log, and tell once a minute how far @what is. Returns the exit status."""
    began = time.monotonic()
    with open(log, "wb") as out, subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                                  env=env, cwd=TOP) as child:
        try:
            while True:
                try:
                    return child.wait(TICK_S)
                except subprocess.TimeoutExpired:
                    if what:
                        tell(f"{what}: {how_far(log)}{time.monotonic() - began:.0f} s so far")
        except BaseException:  # a signal ends this run: the child must not go on
            child.kill()
            raise


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError as e:
        return str(e)


def configure(leg, folder):
    """Make @folder a build folder for @leg, or make it again if its options changed. None, or the log of a failure."""
    argv = ["meson", "setup", folder, TOP, "--werror"] + leg.options
    env = dict(os.environ, CC=leg.cc)
    # Flags of the environment would make each machine test another build.
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
    if call(["ninja", "-C", folder, "-k", "3", f"-j{jobs}", "all", "meson-test-prereq"], log, what=f"building ({leg.build})"):
        return tail(complaints(read(log)))
    return None


def complaints(text):
    """The output of the targets that failed; all output if ninja names none."""
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
    """Why a test was skipped: its line with "skip", or its last line."""
    lines = [line.strip() for line in (test.get("stdout", "") + "\n" + test.get("stderr", "")).splitlines()]
    lines = [line for line in lines if line]
    for line in lines:
        if "skip" in line.lower():
            return line
    return lines[-1] if lines else "it gave no reason"


def partly_skipped(test):
    """The skipped cases of a test program whose other cases ran."""
    text = test.get("stdout", "") + test.get("stderr", "")
    return sorted({line.split("]", 1)[1].strip() for line in text.splitlines()
                   if line.startswith("[  SKIPPED ]") and "test(s)" not in line})


def build_leg(leg, args, total, built):
    """Build @leg, once for all legs that share the build. Whether it builds."""
    if leg.build in built:
        if not built[leg.build]:
            total.fail(leg.name, "the build", "does not build (as above)")
        return built[leg.build]
    folder = os.path.join(WORK, leg.build)
    began = time.monotonic()
    tell(f"building ({leg.build}) ...")
    log = configure(leg, folder)
    if log is None:
        log = compile_all(leg, folder, args.jobs)
    built[leg.build] = log is None
    if log is not None:
        total.fail(leg.name, "the build", "does not build", log)
    seconds = time.monotonic() - began
    total.build_s += seconds
    tell(f"building ({leg.build}): {'done' if log is None else 'FAILED'} in {seconds:.0f} s")
    return built[leg.build]


def run_leg(leg, args, total):
    """Run the tests of a leg that is built, adding to @total. The result in one line."""
    folder = os.path.join(WORK, leg.build)
    tests = json.loads(subprocess.check_output(["meson", "introspect", "--tests", folder]))
    names = [t["name"] for t in tests if leg.wants(t)]
    if args.pattern:
        names = [n for n in names if fnmatch.fnmatch(n, args.pattern) or args.pattern in n]
        if not names:
            return "no test's name matches"
    elif not names:
        total.fail(leg.name, "the suites", f"no test at all in {', '.join(sorted(leg.suites)) or 'any suite'}")
        return "FAILED: no tests"

    tell(f"testing ({leg.name}): {len(names)} test{'' if len(names) == 1 else 's'} ...")
    base = leg.name + ("-" + os.path.basename(leg.wrap) if leg.wrap else "")  # the name that meson gives
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
    is_part = args.pattern or leg.tests or leg.only or leg.left_out
    status = call(argv + (names if is_part else []), log, dict(os.environ, **leg.env), what=f"testing ({leg.name})")

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
    """Count the tests that tools/test ran on the host before: `ok NAME`, `not ok NAME`, `skip NAME: WHY`."""
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
    tell("testing (tools): " + ", ".join(f"{n} {what}" for what, n in counts.items()))


def report(total):
    for leg, test, what, log in total.failures:
        say(f"\n--- FAILED: {leg}: {test}: {what}")
        if log:
            say(log)
    if total.failures:
        say("\nFailed:")
        for leg, test, what, _ in total.failures:
            say(f"  {leg}: {test}: {what}")
    # Several legs skip the same test for the same reason: print one line.
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
        say("\nSkipped cases of tests that ran:")
        for (test, case), legs in cases.items():
            say(f"  {test}: {case} ({', '.join(legs)})")


def main():
    names = ["tools"] + [leg.name for leg in LEGS]
    parser = argparse.ArgumentParser(prog="tools/test", description="Run inferd's tests.")
    parser.add_argument("--with", metavar="WHAT", action="append",
                        help="also the tests that need openvino, export (ExecuTorch) or kernel (an emulated machine)")
    parser.add_argument("--quick", action="store_true", help="only " + ", ".join(QUICK))
    parser.add_argument("--only", metavar="LEG[,LEG]", action="append", help="only these legs")
    parser.add_argument("-k", dest="pattern", metavar="PATTERN", help="only tests whose name matches")
    parser.add_argument("-j", dest="jobs", type=int, default=n_cpus(), metavar="N", help="run N jobs at once")
    parser.add_argument("--list", action="store_true", help="print the legs and stop")
    args = parser.parse_args()
    if args.list:
        say("tools      tools/debian13, tested on the host")
        for leg in LEGS:
            say(f"{leg.name:10} {leg.text}")
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
        tell("../shared is absent: tests that need it will be skipped")
    for i, leg in enumerate(legs, 1):
        tell(f"leg {i} of {len(legs)}: {leg.name}: {leg.text}")
        if leg.needless():
            total.skipped.append((leg.name, "the leg", leg.needless()))
            tell(f"testing ({leg.name}): skipped, {leg.needless()}")
            continue
        if not build_leg(leg, args, total, built):
            continue
        began = time.monotonic()
        found = run_leg(leg, args, total)
        total.test_s += time.monotonic() - began
        tell(f"testing ({leg.name}): {found} in {time.monotonic() - began:.0f} s")
    if args.pattern and not total.passed and not total.failed and not total.skipped:
        total.fail("-k", args.pattern, "no test's name matches")
    report(total)
    say(f"\n{total.build_s:.0f} s building, {total.test_s:.0f} s testing, {time.monotonic() - start:.0f} s in all; "
        "builds and logs are in build-test/")
    with open(os.path.join(WORK, "summary"), "w", encoding="utf-8") as f:
        f.write(total.line() + "\n")
    say(total.line())
    return 1 if total.failed else 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))
    sys.exit(main())
