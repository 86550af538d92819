#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""inferctl and plug-ins of a configuration: inspect asks them, infer --local runs on them.

    test_inferctl_plugins.py INFERCTL INFERD HOST PLUGINS MAKE_DELEGATED [NPU]

PLUGINS holds the test plug-ins (tests/plugins/plugin.c). NPU, where it is there, holds files for engines that are not:
for each, inspect must say what it was exported for and what would help.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

INFERCTL, INFERD, HOST, PLUGINS, MAKE, NPU = [None] * 6
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "tests", "models", "efficientnet_lite0_int8.pte")

TARGETS = {"ethos-u55-128_mv2.bpte": "ethos-u55-128", "ethos-u55-128_small.bpte": "ethos-u55-128",
           "ethos-u65-256_mv2.bpte": "ethos-u65-256", "ethos-u65-256_small.bpte": "ethos-u65-256",
           "ethos-u85-256_small.bpte": "ethos-u85-256", "openvino_mv2.bpte": "CPU", "openvino_small.bpte": "CPU",
           "qnn_small_sm8650.bpte": "SoC 57, Hexagon V75", "small_coreml.pte": None,
           "vgf_small_fp.bpte": "TOSA-1.0+FP", "vgf_small_int.bpte": "TOSA-1.0+INT"}


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="inferctl-plugins-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.config = self.configure("sync")

    def configure(self, plugin):
        path = os.path.join(self.folder, plugin + ".conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"[backend test]\npath = {PLUGINS}/{plugin}.so\nhost = {HOST}\n")
        return path

    def program(self, word):
        path = os.path.join(self.folder, word + ".pte")
        subprocess.run([MAKE, word, path], check=True)
        return path

    def call(self, *args, status=0):
        r = subprocess.run([INFERCTL, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           check=False, timeout=120)
        self.assertEqual(r.returncode, status, r.stderr.decode() + r.stdout.decode())
        return r.stdout.decode() if not status else r.stderr.decode()

    def method(self, config, path):
        return json.loads(self.call("inspect", "--json", "--config", config, path))["methods"][0]

    def test_inspect(self):
        seen = self.method(self.config, self.program("scale"))
        self.assertTrue(seen["plan"]["runs_here"])
        self.assertEqual(seen["plan"]["first_queue"], "npu")
        self.assertTrue(seen["delegates"][0]["available"])
        self.assertNotIn("not available", self.call("inspect", "--config", self.config, self.program("scale")))

    def test_inspect_says_why(self):
        anew = "the backend compiles it again: it was made for the engine of last year"
        seen = self.method(self.config, self.program("stale"))["delegates"][0]
        self.assertTrue(seen["available"])
        self.assertEqual(seen["reason"], anew)
        self.assertIn(anew, self.call("inspect", "--config", self.config, self.program("stale")))
        seen = self.method(self.config, self.program("babble"))
        self.assertFalse(seen["delegates"][0]["available"])
        self.assertEqual(seen["delegates"][0]["reason"], "it is no word")
        self.assertFalse(seen["plan"]["runs_here"])

    def test_plugin_that_is_not_there(self):
        for plugin, why in (("not_here", "there is no such device in this machine"), ("nowhere", "nowhere.so")):
            seen = self.method(self.configure(plugin), self.program("scale"))["delegates"][0]
            self.assertFalse(seen["available"])
            self.assertIn("plug-in test: ", seen["reason"])
            self.assertIn(why, seen["reason"])
        self.assertIn("none.conf", self.call("inspect", "--config", os.path.join(self.folder, "none.conf"),
                                             self.program("scale"), status=1))

    def test_runs_in_this_process(self):
        values = [float(i) for i in range(256)]
        given, got = (os.path.join(self.folder, n) for n in ("in.raw", "out.raw"))
        with open(given, "wb") as f:
            f.write(struct.pack("<256f", *values))
        self.call("infer", "--local", "--config", self.config, "-i", given, "-o", got, self.program("scale"))
        with open(got, "rb") as f:
            self.assertEqual(list(struct.unpack("<256f", f.read())), [2 * v for v in values])
        self.assertIn("host process of backend 'test'",
                      self.call("infer", "--local", "--config", self.config, "-i", given, self.program("exit"), status=1))

    def test_two_queues_in_one_status(self):
        """A client of the CPU and one of the NPU, and both queues at work in what `inferctl status` prints once."""
        models, socket = os.path.join(self.folder, "models"), os.path.join(self.folder, "inferd.sock")
        os.mkdir(models)
        os.rename(self.program("wait"), os.path.join(models, "wait.pte"))
        os.symlink(MODEL, os.path.join(models, "net.pte"))
        config = self.configure("async")
        with open(config, encoding="utf-8") as f:
            plugin = f.read()
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"[server]\nsocket = {socket}\nmanager_socket =\nmodels = {models}\ncache =\nlog_level = error\n{plugin}")
        daemon = subprocess.Popen([INFERD, "--config", config], stdin=subprocess.DEVNULL)
        clients = []
        try:
            while subprocess.run([INFERCTL, "--socket", socket, "status"], capture_output=True, check=False).returncode:
                self.assertIsNone(daemon.poll())
            zeros = os.path.join(self.folder, "zeros.raw")
            with open(zeros, "wb") as f:
                f.write(bytes(1024))
            for args in (["infer", "-i", zeros, "wait"], ["bench", "--requests", "100000", "net"]):
                clients.append(subprocess.Popen([INFERCTL, "--socket", socket, *args], stdout=subprocess.DEVNULL))
            busy = []
            while busy != ["cpu", "npu0"]:
                for process in [daemon, *clients]:
                    self.assertIsNone(process.poll())
                lines = self.call("--socket", socket, "status").splitlines()
                heading = next(i for i, line in enumerate(lines) if line.split()[:1] == ["queue"])
                column = lines[heading].split().index("running")
                rows = [line.split() for line in lines[heading + 1:heading + 3]]
                busy = [row[0] for row in rows if int(row[column])]
        finally:
            for process in [*clients, daemon]:
                process.terminate()
            for process in [*clients, daemon]:
                process.wait(60)

    def test_what_else_there_is(self):
        if not NPU or not os.path.isdir(NPU):
            self.skipTest("no files for other engines here")
        for name, target in TARGETS.items():
            seen = self.method(self.config, os.path.join(NPU, name))["delegates"][0]
            self.assertEqual(seen.get("target"), target, name)
            self.assertFalse(seen["available"])
            self.assertRegex(seen["reason"], r"(it needs|runs on) .*(put a file|configure|install)", name)
        text = self.call("inspect", "--config", self.config, os.path.join(NPU, "small_cadence.pte"))
        self.assertIn("cadence::quantized_conv2d_nhwc.per_tensor_out", text)
        self.assertNotIn("not available", text)  # Cadence's operators are kernels like any other
        broken = os.path.join(self.folder, "broken.bpte")
        for name, at, word, why in (("ethos-u55-128_small.bpte", b"vela_bin_stream", b"vela_bim", "block 0: its name is 'vela_bim"),
                                    ("ethos-u55-128_small.bpte", b"cmd_data", b"cmd_data".ljust(16, b"\0") + b"\xff" * 4,
                                     "block 1 'cmd_data': size 4294967295"),
                                    ("qnn_small_sm8650.bpte", b"\xcd\xab\x78\x56", b"\xcd\xab\x78\x56" + bytes(12), "size: 0"),
                                    ("vgf_small_fp.bpte", b"VGF1", b"VGF2", "magic: ")):
            with open(os.path.join(NPU, name), "rb") as f:
                data = bytearray(f.read())
            start = data.index(at)
            data[start:start + len(word)] = word
            with open(broken, "wb") as f:
                f.write(data)
            seen = self.method(self.config, broken)["delegates"][0]
            self.assertTrue(seen["reason"].startswith("the payload is broken: " + why), seen["reason"])


if __name__ == "__main__":
    INFERCTL, INFERD, HOST, PLUGINS, MAKE = sys.argv[1:6]
    NPU = sys.argv[6] if len(sys.argv) > 6 else None
    unittest.main(argv=sys.argv[:1])
