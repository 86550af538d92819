#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test clients/scale/haproxy.cfg: HAProxy in front of three gateways, each with a daemon, as on three machines.

    test_haproxy.py INFERD INFERD-HTTP INFERCTL

Under load one machine is killed, one is drained and begins anew, and the daemon of one is killed: no request fails.
"""
import gzip
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import gateway
from gateway import BINARY, Process, binary_input, floats, json_input

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
if not HAPROXY:
    print("SKIP: haproxy is not installed")
    sys.exit(77)

CONFIG = gateway.TOP / "clients" / "scale" / "haproxy.cfg"
MODELS = {name: gateway.PROGRAMS[name] for name in ("add_one", "decoder", "efficientnet_lite0")}
NAMES = "one", "two", "three"
IMAGE = floats(*(i % 7 / 7 for i in range(3 * 224 * 224)))
PATIENCE_S = 120


def until(condition, what):
    """Ask again and again: HAProxy tells nobody of its state."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it takes too long: {what}")
        os.sched_yield()


class Machine:
    """A daemon and a gateway at an address that stays."""

    def __init__(self, case, folder):
        self.case, self.folder, self.port = case, folder, 0
        for name, source in MODELS.items():
            place = folder / "models" / name / "1"
            place.mkdir(parents=True)
            shutil.copy(source, place)
        (folder / "inferd.conf").write_text(
            f"[server]\nsocket = {folder}/inferd.sock\nmanager_socket =\nmodels = {folder}/models\ncache =\n"
            "[limits]\nfds = 4096\n", encoding="utf-8")
        self.start()

    def start_daemon(self):
        self.daemon = Process([self.case.inferd, "--config", f"{self.folder}/inferd.conf"], f"{self.folder}/inferd.sock",
                              self.folder / "log")

    def start(self):
        self.start_daemon()
        log = self.folder / "http.log"
        log.unlink(missing_ok=True)
        (self.folder / "inferd-http.conf").write_text(
            f"[http]\nsocket = {self.folder}/http.sock\nlisten = 127.0.0.1:{self.port}\ndaemon = {self.folder}/inferd.sock\n",
            encoding="utf-8")
        self.gateway = Process([self.case.inferd_http, "--config", f"{self.folder}/inferd-http.conf"],
                               f"{self.folder}/http.sock", log)
        self.n_served("add_one")  # all sockets are open then
        self.port = int(re.search(r"port (\d+)", self.gateway.text()).group(1))

    def kill(self, what):
        what.process.kill()
        what.process.wait()
        what.log.close()

    def end(self):
        for what in self.gateway, self.daemon:
            if what.process.poll() is None:
                what.end()

    def n_served(self, model):
        """Requests that this daemon has answered."""
        c = gateway.UnixConnection(f"{self.folder}/http.sock")
        try:
            c.request("GET", f"/v2/models/{model}/stats")
            return json.loads(c.getresponse().read())["model_stats"][0]["inference_stats"]["success"]["count"]
        finally:
            c.close()


class Load(threading.Thread):
    """A client that goes on until it is told to stop; it notes each request that fails or is answered wrongly."""

    failed = []
    is_over = threading.Event()

    def __init__(self, port, ask):
        super().__init__()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self.ask, self.n_done = ask, 0
        self.start()

    def run(self):
        while not self.is_over.is_set():
            try:
                error = self.ask(self.connection, self.n_done)
            except Exception as e:  # the main thread reports it
                error = f"{self.ask}: {e!r}"
                self.connection.close()
            if error:
                self.failed.append(error)
            self.n_done += 1
        self.connection.close()


def post(connection, model, head, binary=b"", headers=None):
    text, headers = json.dumps(head).encode(), dict(headers or {})
    body = text + binary
    if binary:
        headers["Inference-Header-Content-Length"] = str(len(text))
    if "Content-Encoding" in headers:
        body = gzip.compress(body)
    connection.request("POST", f"/v2/models/{model}/infer", body, headers)
    r = connection.getresponse()
    body = r.read()
    return r.status, body, int(r.headers.get("Inference-Header-Content-Length", len(body)))


def ask_json(connection, i):
    status, body, _ = post(connection, "add_one", {"inputs": [json_input("input_0", [2], [i, 2 * i])]})
    return None if status == 200 and json.loads(body)["outputs"][0]["data"] == [i + 1, 2 * i + 1] else (status, body)


def ask_binary(connection, i):
    x = floats(i, 2 * i)
    status, body, n = post(connection, "add_one", {"inputs": [binary_input("input_0", [2], x)], "parameters": BINARY}, x)
    return None if status == 200 and body[n:] == floats(i + 1, 2 * i + 1) else (status, body)


class Image:
    """A body that is larger than the buffers that HAProxy comes with."""

    def __init__(self):
        self.answer = None

    def __call__(self, connection, i):
        status, body, n = post(connection, "efficientnet_lite0", {
            "inputs": [binary_input("input_0", [1, 3, 224, 224], IMAGE)], "parameters": BINARY}, IMAGE)
        if status != 200 or (self.answer and body[n:] != self.answer):
            return status, body[:400]
        self.answer = body[n:]
        return None


def step(connection, sequence, i, packed=False, binary=True):
    """One of the two requests of a sequence of the decoder. In a compressed body HAProxy sees nothing."""
    x = floats(*((i + 1) * (k % 5 - 2) / 3 for k in range(96)))
    position = struct.pack("<q", 3 * i)
    head = {"inputs": [binary_input("input_0", [1, 3, 32], x) if binary else
                       json_input("input_0", [1, 3, 32], struct.unpack("<96f", x)),
                       binary_input("input_1", [1], position, "INT64") if binary else
                       json_input("input_1", [1], [3 * i], "INT64")],
            "parameters": {"sequence_id": sequence, "sequence_start": i == 0, "sequence_end": i == 1, **BINARY}}
    status, body, n = post(connection, "decoder", head, x + position if binary else b"",
                           {"Sequence-Id": str(sequence), "Content-Encoding": "gzip"} if packed else None)
    return body[n:] if status == 200 else (status, body)


def ask_sequence(connection, i):
    """Two steps; a sequence whose machine is killed is refused, and never goes on elsewhere."""
    first = step(connection, i + 1, 0)
    if first != Haproxy.alone[0]:
        return "first step", first
    second = step(connection, i + 1, 1)
    if second == Haproxy.alone[1] or (isinstance(second, tuple) and (
            second[0] == 409 or (second[0] == 400 and b"must specify the START flag" in second[1]))):
        return None
    return "second step", second


class Haproxy(unittest.TestCase):
    inferd = inferd_http = None
    alone = None  # the answers of a sequence that one machine gave

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="inferd-scale-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.machines = {}
        for name in NAMES:
            (self.folder / name).mkdir()
            self.machines[name] = Machine(gateway.Case, self.folder / name)
            self.addCleanup(self.machines[name].end)
        self.start_haproxy()

    def start_haproxy(self):
        front = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(front.close)
        self.port, self.admin = front.getsockname()[1], f"{self.folder}/admin.sock"
        text = CONFIG.read_text(encoding="utf-8")
        places = {"/run/haproxy/admin.sock": self.admin, "bind 127.0.0.1:8000": f"bind fd@{front.fileno()}",
                  "bind 127.0.0.1:8405": f"bind {self.folder}/metrics.sock", "log /dev/log": f"log {self.folder}/none"}
        places |= {f"10.0.0.1{i + 1}:8000": f"127.0.0.1:{self.machines[name].port}" for i, name in enumerate(NAMES)}
        for old, new in places.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        (self.folder / "haproxy.cfg").write_text(text, encoding="utf-8")
        log = open(self.folder / "haproxy.log", "w+", encoding="utf-8")
        self.addCleanup(log.close)
        haproxy = subprocess.Popen([HAPROXY, "-db", "-f", f"{self.folder}/haproxy.cfg"], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, pass_fds=[front.fileno()])
        self.addCleanup(haproxy.wait)
        self.addCleanup(haproxy.terminate)

        def answers():
            if haproxy.poll() is not None:
                log.seek(0)
                self.fail(log.read())
            for path in self.admin, f"{self.folder}/metrics.sock":
                with socket.socket(socket.AF_UNIX) as s:
                    if s.connect_ex(path):
                        return False
            return True
        until(answers, "HAProxy starts")

    def command(self, text):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE_S)
            s.connect(self.admin)
            s.sendall(text.encode() + b"\n")
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def servers(self, field, backend="models"):
        """{server: field} of HAProxy's statistics."""
        lines = self.command("show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
        return {r["svname"]: r[field] for r in rows if r["pxname"] == backend and r["svname"] in NAMES}

    def connect(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        self.addCleanup(c.close)
        return c

    def sequences(self):
        """How many of HAProxy's table belong to each server."""
        found = re.findall(r"server_id=(\d)", self.command("show table sequences"))
        return {name: found.count(str(i + 1)) for i, name in enumerate(NAMES)}

    def go_on(self, clients, n=20):
        """Each client gets more answers."""
        before = {c: c.n_done for c in clients}
        until(lambda: Load.failed or all(c.n_done >= before[c] + n for c in clients), "clients are answered")
        self.assertEqual(Load.failed, [])

    def wait_up(self, name):
        until(lambda: self.servers("status")[name] == "UP", f"HAProxy sees {name}")
        before = self.machines[name].n_served("add_one")
        until(lambda: self.machines[name].n_served("add_one") > before, f"{name} gets requests")

    def wait_down(self, name):
        until(lambda: self.servers("status")[name].startswith("DOWN"), f"HAProxy misses {name}")

    def test_kills_and_drain(self):
        direct = http.client.HTTPConnection("127.0.0.1", self.machines["one"].port, timeout=PATIENCE_S)
        self.addCleanup(direct.close)
        Haproxy.alone = [step(direct, 1, 0), step(direct, 1, 1)]
        self.assertEqual([type(a) for a in self.alone], [bytes, bytes], self.alone)
        until(lambda: set(self.servers("status").values()) == {"UP"}, "all machines are up")
        asks = [ask_json, ask_json, ask_binary, ask_binary, Image(), ask_sequence]
        clients = [Load(self.port, ask) for ask in asks]
        try:
            for name in NAMES:
                until(lambda name=name: self.machines[name].n_served("add_one"), f"{name} gets requests")
            self.go_on(clients)
            self.kill_one(clients)
            self.drain_two(clients)
            self.kill_daemon_of_three(clients)
        finally:
            Load.is_over.set()
            for c in clients:
                c.join()
        self.assertEqual(Load.failed, [])

    def kill_one(self, clients):
        one = self.machines["one"]
        one.kill(one.gateway)
        one.kill(one.daemon)
        self.go_on(clients)
        self.wait_down("one")
        self.go_on(clients)
        one.start()
        self.wait_up("one")

    def drain_two(self, clients):
        """For an upgrade: sequences that it has end there, and it gets nothing new."""
        begun = [(i, self.connect()) for i in range(12)]
        for i, connection in begun:
            self.assertEqual(step(connection, 7, 0, packed=i % 3 == 1, binary=i % 3 != 2), self.alone[0])
        self.assertGreater(self.sequences()["two"], 0)
        self.command("set server models/two state drain")
        for i, connection in [(i, self.connect()) for i in range(6)]:
            self.assertEqual(step(connection, 8, 0), self.alone[0])
        until(lambda: self.servers("scur")["two"] == "0", "two has no request")
        served = self.machines["two"].n_served("add_one"), self.machines["two"].n_served("decoder")
        for i, connection in begun:
            self.assertEqual(step(connection, 7, 1, packed=i % 3 == 1, binary=i % 3 != 2), self.alone[1])
        self.go_on(clients)
        self.assertEqual(self.machines["two"].n_served("add_one"), served[0])
        self.assertGreater(self.machines["two"].n_served("decoder"), served[1])
        self.machines["two"].end()
        self.go_on(clients)
        self.machines["two"].start()
        self.command("set server models/two state ready")
        self.wait_up("two")

    def kill_daemon_of_three(self, clients):
        """The gateway is there and says 503."""
        three = self.machines["three"]
        three.kill(three.daemon)
        self.go_on(clients)
        self.wait_down("three")
        three.start_daemon()
        self.wait_up("three")
        self.go_on(clients)

    def test_what_is_a_machines_own(self):
        c = self.connect()
        for method, path in (("GET", "/metrics"), ("POST", "/v2/repository/models/add_one/unload"),
                             ("POST", "/v2/systemsharedmemory/region/a/register"), ("GET", "/metrics/"), ("GET", "/%6detrics"),
                             ("POST", "/v2/repository/%6dodels/add_one/unload/")):
            c.request(method, path, "{}")
            r = c.getresponse()
            self.assertEqual((r.status, json.loads(r.read())), (403, {"error": "ask the machine itself for this"}))
        c.request("GET", "/v2/models/add_one")
        self.assertEqual(json.loads(c.getresponse().read())["name"], "add_one")

    def test_metrics_of_haproxy(self):
        c = gateway.UnixConnection(f"{self.folder}/metrics.sock")
        self.addCleanup(c.close)
        c.request("GET", "/metrics")
        self.assertIn(b'haproxy_server_status{proxy="models",server="three",state="UP"} 1', c.getresponse().read())


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    gateway.main()
