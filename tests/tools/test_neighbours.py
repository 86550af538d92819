#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/bench/neighbours.py works, and ends its busy loops. Its figures are not judged: usage BENCH BUILD MODEL."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

BENCH, BUILD, MODEL = sys.argv[1:4]
COMMAND = [sys.executable, "-B", BENCH, "--build", BUILD, "--json"]


def loops(session):
    """The busy loops of a session, by process id."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            is_ours = os.getsid(int(folder.name)) == session
        except OSError:
            continue  # it has ended
        if is_ours and any(b"while os.getppid()" in argument for argument in command):
            found.append(int(folder.name))
    return found


class Neighbours(unittest.TestCase):
    def test_rows(self):
        done = subprocess.run(COMMAND + ["--requests", "20", MODEL], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)  # 2: no cgroup for the quota
        rows = json.loads(done.stdout)["rows"]
        for kind in ("compute", "memory"):
            self.assertEqual([r["way"] for r in rows if r["beside"] == kind], ["daemon", "in process"])
        measured = [r for r in rows if "not_measured" not in r]
        self.assertEqual(len(measured), 6 if measured == rows else 4)  # without a cgroup, the two of the quota are missing
        for r in measured:
            self.assertLessEqual(r["p50_ms"], r["p99_ms"])
            self.assertLessEqual(r["p99_ms"], r["max_ms"])
            self.assertEqual(any("slowest ≤ 10" in m for m in r["missed"]), r["max_ms"] > 10 * r["base_ms"])

    def test_interrupted(self):
        bench = subprocess.Popen(COMMAND + ["--requests", "100000", MODEL], start_new_session=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 100
        while not loops(bench.pid) and bench.poll() is None and time.monotonic() < end:
            os.sched_yield()
        self.assertTrue(loops(bench.pid))
        os.kill(bench.pid, signal.SIGINT)
        bench.wait(timeout=100)
        end = time.monotonic() + 100
        while loops(bench.pid) and time.monotonic() < end:
            os.sched_yield()
        self.assertEqual(loops(bench.pid), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
