#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test tests/run.py with small projects: tests that pass, fail, skip, crash, hang, do not build or do not exist.

The gate's result is only as good as the gate, so this checks its counts, its exit status and the lines that tell how
far it is.
"""

import os
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "run.py")

PASS = "test('fine', find_program('true'), suite: 'unit')\n"
FAIL = "test('broken', find_program('sh'), args: ['-c', 'echo this is why; exit 1'], suite: 'unit')\n"
SKIP = "test('absent', find_program('sh'), args: ['-c', 'echo SKIP: no model here; exit 77'], suite: 'unit')\n"
CRASH = "test('crashing', find_program('sh'), args: ['-c', 'kill -SEGV $$'], suite: 'unit')\n"
HANG = "test('hanging', find_program('tail'), args: ['-f', '/dev/null'], timeout: 1, suite: 'unit')\n"
LINT = "test('ruled', find_program('true'), suite: 'lint')\n"
NO_BUILD = "executable('x', 'no_build.c')\n"

# Fails unless the leg hides AVX-512.
HIDDEN = """test('kernels-x', find_program('sh'), args: ['-c', 'case $GLIBC_TUNABLES in *-AVX512F*) ;; *) exit 1;; esac'],
  suite: 'unit')
"""
with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
    HAS_AVX512 = "avx512f" in cpuinfo.read().split()

CASES = [
    # (what, tests, arguments, status, last line, words that the output must have)
    ("all tests pass", PASS + LINT, ["--only", "gcc"], 0, "1 passed, 0 failed, 0 skipped",
     ["tools/test: building (gcc) ...\ntools/test: building (gcc): done in ", "tools/test: testing (gcc): 1 test ...\n",
      "tools/test: testing (gcc): 1 passed, 0 failed, 0 skipped in ", " s building, "]),
    ("two legs with one build", PASS + LINT, ["--only", "gcc,lint"], 0, "2 passed, 0 failed, 0 skipped",
     ["leg 1 of 2: lint", "testing (lint): 1 test ...", "testing (gcc): 1 test ..."]),
    ("one of each", PASS + FAIL + SKIP, ["--only", "gcc"], 1, "1 passed, 1 failed, 1 skipped",
     ["this is why", "SKIP: no model here", "gcc: broken"]),
    ("a skip is no failure", PASS + SKIP, ["--only", "gcc"], 0, "1 passed, 0 failed, 1 skipped", ["absent (gcc)"]),
    ("a crash is a failure", PASS + CRASH, ["--only", "gcc"], 1, "1 passed, 1 failed, 0 skipped", ["gcc: crashing"]),
    ("a hanging test ends", PASS + HANG, ["--only", "gcc"], 1, "1 passed, 1 failed, 0 skipped", ["gcc: hanging"]),
    ("no test at all fails", LINT, ["--only", "gcc"], 1, "0 passed, 1 failed, 0 skipped", ["no test at all"]),
    ("a build that fails", PASS + NO_BUILD, ["--only", "gcc"], 1, "0 passed, 1 failed, 0 skipped",
     ["does not build", "building (gcc): FAILED in "]),
    ("a configuration that fails", "nonsense(\n", ["--only", "gcc"], 1, "0 passed, 1 failed, 0 skipped", ["does not build"]),
    ("a lesser processor", FAIL + HIDDEN, ["--only", "avx2"], 0,
     "1 passed, 0 failed, 0 skipped" if HAS_AVX512 else "0 passed, 0 failed, 1 skipped", ["testing (avx2): "]),
    ("a pattern selects", PASS + FAIL, ["--only", "gcc", "-k", "fin*"], 0, "1 passed, 0 failed, 0 skipped", []),
    ("a pattern that nothing matches", PASS, ["--only", "gcc", "-k", "nowhere"], 1, "0 passed, 1 failed, 0 skipped", []),
]


def run(tests, arguments):
    with tempfile.TemporaryDirectory() as top:
        with open(os.path.join(top, "meson.build"), "w", encoding="utf-8") as f:
            f.write("project('seed', 'c')\n" + tests)
        with open(os.path.join(top, "no_build.c"), "w", encoding="utf-8") as f:
            f.write("this is no C\n")
        # Variables of an outer run must not reach this one.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MESON", "NINJA"))}
        env["INFERD_TEST_TOP"] = top
        r = subprocess.run([sys.executable, "-B", RUN] + arguments, env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return r.returncode, r.stdout


def main():
    failed = 0
    for what, tests, arguments, status, last, words in CASES:
        # A hanging test is given four times its second by the leg.
        got, output = run(tests, arguments)
        lines = output.splitlines()
        wrong = [w for w in words if w not in output] + ([] if output.count("building (gcc) ...") < 2 else ["one build"])
        if got != status or not lines or lines[-1] != last or wrong:
            print(f"{what}: status {got} for {status}, last line {lines[-1:]} for {last!r}, missing: {wrong}\n{output}")
            failed += 1
    print(f"{len(CASES)} cases, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
