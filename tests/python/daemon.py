# SPDX-License-Identifier: BSD-3-Clause
"""A private daemon for the tests of the Python package, and what they have in common."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import inferd

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from paused import Paused, stop  # noqa: E402,F401

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = TOP / "tests" / "models"
SMALL = MODELS / "small"
SHARED = TOP.parent / "shared" / "models"
EFFICIENTNET = MODELS / "efficientnet_lite0_int8.pte"
PROGRAMS = {"add_one": SMALL / "constants.pte", "last": SMALL / "channels_last.bpte", "numbers": SMALL / "numbers.bpte",
            "left_out": SMALL / "left_out.pte", "shared": SMALL / "shared_caches.bpte",
            "two": SMALL / "two_methods_cond.bpte", "decoder": SMALL / "decoder.bpte",
            "dynamic": TOP / "tests" / "corpus" / "dynamic" / "bmm_dyn.bpte", "efficientnet_lite0": EFFICIENTNET}


class Daemon:
    """inferd over a folder of its own."""

    def __init__(self, program, models, config=""):
        self.program = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="inferd-python-"))
        self.socket = str(self.folder / "inferd.sock")
        for name, source in models.items():
            place = self.folder / "models" / name / "1"
            place.mkdir(parents=True)
            shutil.copy(source, place)
        (self.folder / "inferd.conf").write_text(
            f"[server]\nsocket = {self.socket}\nmanager_socket = {self.folder}/manager.sock\n"
            f"models = {self.folder}/models\ncache =\n[limits]\nfds = 4096\n{config}", encoding="utf-8")
        self.process = None
        self.start()

    def start(self):
        # a sanitizer's library that this process needs is none of the daemon's
        environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "PYTHONMALLOC")}
        if self.process:
            self.log.close()
        self.log = open(self.folder / "log", "a+", encoding="utf-8")
        self.process = subprocess.Popen([self.program, "--config", str(self.folder / "inferd.conf")], stderr=self.log,
                                        stdin=subprocess.DEVNULL, env=environment)
        deadline = time.monotonic() + 60
        while True:
            try:
                inferd.connect(self.socket).close()
                return
            except inferd.Disconnected:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.log.seek(0)
                    raise AssertionError("inferd does not answer: " + self.log.read()) from None

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.log.close()
        return status

    def paused(self):
        """with: the daemon does not run, so that a request stays in flight."""
        return Paused(self.process.pid)

    def end(self):
        status = self.stop()
        log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        shutil.rmtree(self.folder)
        if status:
            raise AssertionError(f"inferd ended with status {status}: {log}")


class Case(unittest.TestCase):
    """Tests with one daemon for all of a class."""

    models = PROGRAMS
    config = ""
    program = None  # of inferd

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(cls.program, cls.models, cls.config)
        cls.addClassCleanup(cls.daemon.end)
        os.environ["INFERD_SOCKET"] = cls.daemon.socket

    def connect(self, **options):
        d = inferd.connect(self.daemon.socket, **options)
        self.addCleanup(d.close)
        return d

    def binding(self, model="add_one"):
        return self.connect().open(model).bind()

    def script(self, text, *args, status=0):
        """Run @text in a Python of its own, in which d is a connection. Its output."""
        head = "import asyncio, inferd, os, signal, sys, threading\nd = inferd.connect()\n"
        r = subprocess.run([sys.executable, "-X", "faulthandler", "-c", head + text, *args], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
        self.assertEqual(r.returncode, status, r.stdout)
        return r.stdout


def main():
    Case.program = sys.argv.pop(1)
    unittest.main()
