# SPDX-License-Identifier: BSD-3-Clause
"""A private daemon with a gateway before it, and what the tests of the gateway have in common."""
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from paused import Paused  # noqa: E402,F401

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SMALL = TOP / "tests" / "models" / "small"
EFFICIENTNET = TOP / "tests" / "models" / "efficientnet_lite0_int8.pte"
DYNAMIC = TOP / "tests" / "corpus" / "dynamic" / "bmm_dyn.bpte"
PROGRAMS = {"add_one": SMALL / "constants.pte", "last": SMALL / "channels_last.bpte", "numbers": SMALL / "numbers.bpte",
            "left_out": SMALL / "left_out.pte", "decoder": SMALL / "decoder.bpte", "dynamic": DYNAMIC,
            "efficientnet_lite0": EFFICIENTNET}
LABELS = """[output 0]
name = scores
labels = none, one or two
"""
MEMORY = 2 << 30  # of the gateway's address space, without sanitizers


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection to a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def limit_memory():
    if not os.environ.get("INFERD_SANITIZED"):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Process:
    """A program that answers at a Unix socket, with its log."""

    def __init__(self, argv, path, log, limited=False):
        self.log = open(log, "a+", encoding="utf-8")
        self.process = subprocess.Popen(argv, stderr=self.log, stdin=subprocess.DEVNULL,
                                        preexec_fn=limit_memory if limited else None)
        deadline = time.monotonic() + 120
        while True:
            for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
                with socket.socket(socket.AF_UNIX, kind) as s:
                    if s.connect_ex(path) == 0:
                        return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{argv[0]} does not answer: {self.text()}")

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        text = self.text()
        self.log.close()
        if status:
            raise AssertionError(f"it ended with status {status}: {text}")


class Case(unittest.TestCase):
    """Tests with one daemon and one gateway for all of a class."""

    models = PROGRAMS
    config = ""  # of the gateway
    daemon_config = ""
    inferd = inferd_http = inferctl = None  # the programs

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="inferd-http-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name, source in cls.models.items():
            place = cls.folder / "models" / name / "1"
            place.mkdir(parents=True)
            shutil.copy(source, place)
        cls.socket, cls.path = str(cls.folder / "inferd.sock"), str(cls.folder / "http.sock")
        (cls.folder / "inferd.conf").write_text(
            f"[server]\nsocket = {cls.socket}\nmanager_socket = {cls.folder}/manager.sock\nmodels = {cls.folder}/models\n"
            f"cache =\n[limits]\nfds = 4096\n{cls.daemon_config}", encoding="utf-8")
        (cls.folder / "inferd-http.conf").write_text(
            f"[http]\nsocket = {cls.path}\nlisten = 127.0.0.1:0\ndaemon = {cls.socket}\n"
            f"manager = {cls.folder}/manager.sock\n{cls.config}", encoding="utf-8")
        cls.prepare()
        cls.daemon = cls.start_daemon()
        cls.addClassCleanup(lambda: cls.daemon.end())
        cls.gateway = cls.start_gateway()
        cls.addClassCleanup(lambda: cls.gateway.end())
        live = UnixConnection(cls.path)
        live.request("GET", "/v2/health/live")  # all sockets are open then
        live.getresponse().read()
        live.close()
        cls.port = int(re.search(r"port (\d+)", cls.gateway.text()).group(1))

    @classmethod
    def start_daemon(cls):
        return Process([cls.inferd, "--config", str(cls.folder / "inferd.conf")], cls.socket, cls.folder / "log")

    @classmethod
    def start_gateway(cls):
        return Process([cls.inferd_http, "--config", str(cls.folder / "inferd-http.conf")], cls.path, cls.folder / "http.log",
                       limited=True)

    @classmethod
    def prepare(cls):
        """What a class adds to the models before the daemon starts."""

    def connect(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self.addCleanup(c.close)
        return c

    def raw(self, data=b""):
        """A connection of bytes."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        self.addCleanup(s.close)
        s.sendall(data)
        return s

    def ask(self, method, path, body=None, headers=None, connection=None):
        """The status, headers and body of one request."""
        c = connection or self.connect()
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()

    def json(self, method, path, body=None, status=200, **options):
        code, headers, text = self.ask(method, path, body if body is None else json.dumps(body), **options)
        self.assertEqual(code, status, text)
        self.assertEqual(headers["Content-Type"], "application/json")
        return json.loads(text)

    def refuse(self, method, path, body=None, status=400, has="", headers=None, connection=None):
        """The request is refused with that status and a sentence."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        code, _, text = self.ask(method, path, body, headers, connection)
        self.assertEqual(code, status, text)
        answer = json.loads(text)
        self.assertEqual(list(answer), ["error"])
        self.assertIn(has, answer["error"])
        return answer["error"]

    def infer(self, model, head, binary=b"", headers=None, connection=None, path="infer"):
        """The head and the binary outputs of an inference with binary data."""
        text = json.dumps(head).encode()
        code, got, body = self.ask("POST", f"/v2/models/{model}/{path}", text + binary,
                                   {"Inference-Header-Content-Length": str(len(text)), **(headers or {})}, connection)
        self.assertEqual(code, 200, body)
        n = int(got.get("Inference-Header-Content-Length", len(body)))
        answer, rest, outputs = json.loads(body[:n]), body[n:], {}
        for out in answer["outputs"]:
            size = out.get("parameters", {}).get("binary_data_size")
            if size is not None:
                outputs[out["name"]], rest = rest[:size], rest[size:]
        self.assertEqual(rest, b"")
        return answer, outputs

    def live(self):
        """The gateway still serves."""
        self.assertEqual(self.json("GET", "/v2/health/live"), {"live": True})

    def run_inferctl(self, *args):
        r = subprocess.run([self.inferctl, *args, "--socket", self.socket], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False, timeout=240)
        self.assertEqual(r.returncode, 0, r.stdout)
        return r.stdout


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def binary_input(name, shape, data, datatype="FP32"):
    return {"name": name, "datatype": datatype, "shape": list(shape), "parameters": {"binary_data_size": len(data)}}


def json_input(name, shape, data, datatype="FP32"):
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": data}


BINARY = {"binary_data_output": True}


def main():
    Case.inferd, Case.inferd_http, Case.inferctl = (sys.argv.pop(1) for _ in range(3))
    unittest.main()
