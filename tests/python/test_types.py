#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the type stubs: a program that uses everything runs, mypy accepts it strictly, and stubtest compares the
stubs with the extension.

    test_types.py INFERD

$INFERD_CLIENTS is the environment with mypy that `tools/test --with clients` installs; without it only the
program runs.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import daemon
import inferd

CLIENTS = os.environ.get("INFERD_CLIENTS")
PROGRAM = pathlib.Path(__file__).with_name("everything.py")
EXAMPLES = daemon.TOP / "clients" / "examples"


class Runs(daemon.Case):
    def test_everything(self):
        r = subprocess.run([sys.executable, "-B", PROGRAM, self.daemon.socket, daemon.PROGRAMS["add_one"]], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_it_uses_everything(self):
        text = PROGRAM.read_text(encoding="utf-8")
        self.assertEqual([name for name in inferd.__all__ if f"inferd.{name}" not in text], [])
        for thing in inferd.Connection, inferd.Method, inferd.Binding, inferd.Tensor, inferd.Region, inferd.TensorInfo, inferd.Timing:
            fields = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
            self.assertEqual([n for n in vars(thing) if n[0] != "_" and n not in fields and f".{n}" not in text], [], thing)


@unittest.skipUnless(CLIENTS, "mypy is not installed; tools/test --with clients installs it")
class Types(unittest.TestCase):
    def mypy(self, *arguments):
        with tempfile.TemporaryDirectory(prefix="inferd-mypy-") as folder:
            r = subprocess.run([f"{CLIENTS}/bin/python", "-B", "-m", *arguments], stdout=subprocess.PIPE, text=True, cwd=folder,
                               stderr=subprocess.STDOUT, timeout=200, check=False,
                               env=dict(os.environ, MYPYPATH=str(pathlib.Path(inferd.__file__).parent.parent)))
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_strict(self):
        self.mypy("mypy", "--strict", str(PROGRAM))

    def test_examples(self):
        self.mypy("mypy", "--ignore-missing-imports", *(str(EXAMPLES / name) for name in ("label.py", "sentences.py", "speech.py")))

    def test_stubs(self):
        self.mypy("mypy.stubtest", "inferd")


if __name__ == "__main__":
    daemon.main()
