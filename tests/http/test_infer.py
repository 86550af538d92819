#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test inference through the gateway: JSON and binary data, compression, order of dimensions, sequences, classes, memory.

    test_infer.py INFERD INFERD-HTTP INFERCTL
"""
import gzip
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import threading
import time
import zlib

import gateway
from gateway import BINARY, binary_input, floats, json_input

SHM = pathlib.Path("/dev/shm")


def numbers(n, seed=1):
    r = random.Random(seed)
    return floats(*(r.uniform(-2, 2) for _ in range(n)))


class Infer(gateway.Case):
    daemon_config = "priority = realtime\n"

    def test_json(self):
        for shape, data in ([2], [1, 2.5]), ([2], [[1], [2.5]]):
            answer = self.json("POST", "/v2/models/add_one/infer", {"id": "a\"b", "inputs": [json_input("input_0", shape, data)]})
            self.assertEqual(answer, {"id": "a\"b", "model_name": "add_one", "model_version": "1", "outputs": [
                {"name": "output_0", "datatype": "FP32", "shape": [2], "data": [2, 3.5]}]})

    def test_binary(self):
        x = binary_input("input_0", [2], floats(3, 4))
        answer, outputs = self.infer("add_one", {"inputs": [x], "parameters": BINARY}, floats(3, 4))
        self.assertEqual(outputs, {"output_0": floats(4, 5)})
        self.assertNotIn("id", answer)
        answer, outputs = self.infer("add_one", {"inputs": [x]}, floats(3, 4), path="infer")
        self.assertEqual((answer["outputs"][0]["data"], outputs), ([4, 5], {}))
        _, outputs = self.infer("add_one/versions/1", {"inputs": [json_input("input_0", [2], [3, 4])], "outputs": [
            {"name": "output_0", "parameters": {"binary_data": True}}]})
        self.assertEqual(outputs, {"output_0": floats(4, 5)})

    def test_same_json_again(self):
        """The gateway keeps the JSON of a connection's last request; another one of the same length is not taken for it."""
        c = self.connect()

        def outputs_of(model, head, binary):
            answer, outputs = self.infer(model, head, binary, connection=c)
            return answer.get("id"), outputs.get("output_0", answer["outputs"][0].get("data"))
        x = {"inputs": [binary_input("input_0", [2], floats(3, 4))], "parameters": BINARY}
        text = {"id": "A", "inputs": [json_input("input_0", [2], [3, 4])]}
        for _ in range(3):
            self.assertEqual(outputs_of("add_one", {"id": "a", **x}, floats(3, 4)), ("a", floats(4, 5)))
            self.assertEqual(outputs_of("add_one", {"id": "a", **x}, floats(5, 6)), ("a", floats(6, 7)))
            self.assertEqual(outputs_of("add_one", {"id": "b", **x}, floats(7, 8)), ("b", floats(8, 9)))
            self.assertEqual(outputs_of("add_one", text, b""), ("A", [4, 5]))
            self.assertEqual(outputs_of("add_one", text, b""), ("A", [4, 5]))
            self.assertEqual(outputs_of("add_one", {"id": "b", **x}, floats(1, 2)), ("b", floats(2, 3)))
            # the same JSON, for a model with other inputs
            body = json.dumps({"id": "b", **x}).encode()
            code, _, _ = self.ask("POST", "/v2/models/numbers/infer", body + floats(1, 2),
                                  {"Inference-Header-Content-Length": str(len(body))}, connection=c)
            self.assertEqual(code, 400)
            self.assertEqual(outputs_of("add_one", {"id": "b", **x}, floats(0, 1)), ("b", floats(1, 2)))

    def test_mixture(self):
        """Binary inputs come in order behind the JSON, whatever lies between them there."""
        a, c = floats(1, 2, 3, 4), struct.pack("<d", 0.5)
        inputs = [json_input("input_3", [1], [True], "BOOL"), binary_input("input_2", [1], c, "FP64"),
                  json_input("input_1", [1], [3], "INT64"), binary_input("input_0", [4], a)]
        answer, outputs = self.infer("left_out", {"inputs": inputs, "outputs": [
            {"name": "output_1"}, {"name": "output_0", "parameters": {"binary_data": True}}]}, c + a)
        self.assertEqual(outputs, {"output_0": floats(3.5, 6.5, 9.5, 12.5)})
        self.assertEqual([o["name"] for o in answer["outputs"]], ["output_1", "output_0"])
        self.assertEqual(answer["outputs"][0]["datatype"], "INT64")

    def test_number_outputs(self):
        answer = self.json("POST", "/v2/models/numbers/infer", {"inputs": [json_input("input_0", [3], [1, 5, 2])]})
        self.assertEqual([(o["datatype"], o["shape"], o["data"]) for o in answer["outputs"]],
                         [("FP32", [3], [2, 6, 3]), ("FP64", [1], [8]), ("BOOL", [1], [True]), ("INT64", [1], [1])])
        answer, outputs = self.infer("numbers", {"inputs": [json_input("input_0", [3], [1, 5, 2])], "parameters": BINARY})
        self.assertEqual(outputs["output_3"], struct.pack("<q", 1))
        self.assertEqual(outputs["output_2"], b"\1")

    def test_raw_request(self):
        code, headers, body = self.ask("POST", "/v2/models/add_one/infer", floats(1, 2), {"Inference-Header-Content-Length": "0"})
        self.assertEqual(code, 200, body)
        n = int(headers["Inference-Header-Content-Length"])
        self.assertEqual(body[n:], floats(2, 3))
        raw = {"Inference-Header-Content-Length": "0"}
        for wrong in b"", floats(1), floats(1, 2, 3):
            self.refuse("POST", "/v2/models/add_one/infer", wrong, headers=raw)
        self.refuse("POST", "/v2/models/left_out/infer", floats(1, 2), headers=raw, has="exactly one input")
        code, headers, body = self.ask("POST", "/v2/models/add_one/infer", gzip.compress(floats(1, 2)),
                                       {**raw, "Content-Encoding": "gzip"})
        self.assertEqual(body[-8:], floats(2, 3))

    def test_compression(self):
        text = json.dumps({"inputs": [binary_input("input_0", [2], floats(1, 2))], "parameters": BINARY}).encode()
        size = {"Inference-Header-Content-Length": str(len(text))}
        for encoding, compress in ("gzip", gzip.compress), ("deflate", zlib.compress):
            _, headers, body = self.ask("POST", "/v2/models/add_one/infer", compress(text + floats(1, 2)),
                                        {**size, "Content-Encoding": encoding, "Accept-Encoding": encoding})
            self.assertEqual(headers["Content-Encoding"], encoding)
            body = zlib.decompress(body, 47)
            self.assertEqual(body[int(headers["Inference-Header-Content-Length"]):], floats(2, 3))
        _, headers, _ = self.ask("POST", "/v2/models/add_one/infer", text + floats(1, 2),
                                 {**size, "Accept-Encoding": "br, gzip;q=0, identity"})
        self.assertIsNone(headers["Content-Encoding"])

    def test_to_the_bit(self):
        """What the daemon answers to inferctl, whole images, in all ways."""
        x = numbers(3 * 224 * 224)
        (self.folder / "x.raw").write_bytes(x)
        self.run_inferctl("infer", "efficientnet_lite0", "-i", f"{self.folder}/x.raw", "-o", f"{self.folder}/y.raw")
        y = (self.folder / "y.raw").read_bytes()
        self.assertEqual(len(y), 4000)
        c = self.connect()
        head = {"inputs": [binary_input("input_0", [1, 3, 224, 224], x)], "parameters": BINARY}
        for _ in range(2):
            self.assertEqual(self.infer("efficientnet_lite0", head, x, connection=c)[1]["output_0"], y)
        text = json.dumps({"inputs": [json_input("input_0", [1, 3, 224, 224], struct.unpack(f"<{len(x) // 4}f", x))]})
        answer = json.loads(self.ask("POST", "/v2/models/efficientnet_lite0/infer", gzip.compress(text.encode()),
                                     {"Content-Encoding": "gzip"})[2])
        self.assertEqual(floats(*answer["outputs"][0]["data"]), y)
        packed = gzip.compress(json.dumps(head).encode() + x)
        _, headers, body = self.ask("POST", "/v2/models/efficientnet_lite0/infer", packed, {
            "Inference-Header-Content-Length": str(len(json.dumps(head))), "Content-Encoding": "gzip"})
        self.assertEqual(body[int(headers["Inference-Header-Content-Length"]):], y)

    def test_order_of_dimensions(self):
        """The program's memory is channels-last; the protocol's is row-major, and so is inferctl's of .npy."""
        x = numbers(2 * 3 * 5 * 6)
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 5, 6), }"
        header += b" " * (117 - len(header)) + b"\n"
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + x)
        self.run_inferctl("infer", "last", "-i", f"{self.folder}/x.npy", "-o", f"{self.folder}/y.npy")
        y = (self.folder / "y.npy").read_bytes()
        self.assertNotIn(b"'fortran_order': True", y)
        n = 2 * 4 * 3 * 4 * 4
        y = y[-n:]
        head = {"inputs": [binary_input("input_0", [2, 3, 5, 6], x)], "parameters": BINARY}
        self.assertEqual(self.infer("last", head, x)[1]["output_0"], y)
        answer = self.json("POST", "/v2/models/last/infer", {
            "inputs": [json_input("input_0", [2, 3, 5, 6], struct.unpack("<180f", x))]})
        self.assertEqual(floats(*answer["outputs"][0]["data"]), y)
        self.assertEqual(answer["outputs"][0]["shape"], [2, 4, 3, 4])

    def test_dynamic(self):
        """A smaller shape, and then a larger one on the same binding."""
        largest = self.run_inferctl("inspect", str(gateway.DYNAMIC)).decode()
        self.assertIn("dynamic", largest)
        c = self.connect()
        for n in 1, 2, 1:
            a, b = [1.0] * (n * 2 * 3), [2.0] * (n * 3 * 2)
            code, _, text = self.ask("POST", "/v2/models/dynamic/infer", json.dumps({"inputs": [
                json_input("input_0", [n, 2, 3], a), json_input("input_1", [n, 3, 2], b)]}), connection=c)
            self.assertEqual(code, 200, text)
            self.assertEqual(json.loads(text)["outputs"][0]["shape"], [n, 2, 2])
            self.assertEqual(json.loads(text)["outputs"][0]["data"], [6.0] * (n * 4))
        self.refuse("POST", "/v2/models/dynamic/infer", {"inputs": [
            json_input("input_0", [1000, 1, 1], [0] * 1000), json_input("input_1", [1, 1, 1], [0])]}, has="at most")

    def test_priorities(self):
        x = [json_input("input_0", [2], [1, 2])]
        for priority in range(5):
            self.json("POST", "/v2/models/add_one/infer", {"inputs": x, "parameters": {"priority": priority}})
        for wrong in 5, -1, "1":
            self.refuse("POST", "/v2/models/add_one/infer", {"inputs": x, "parameters": {"priority": wrong}})

    def test_timeout(self):
        request = {"inputs": [json_input("input_0", [2], [1, 2])], "parameters": {"timeout": 50000}}
        c = self.connect()
        self.json("POST", "/v2/models/add_one/infer", {**request, "parameters": {}}, connection=c)
        with gateway.Paused(self.daemon.process.pid):
            self.refuse("POST", "/v2/models/add_one/infer", request, status=504, connection=c)
        self.json("POST", "/v2/models/add_one/infer", {**request, "parameters": {}}, connection=c)

    def step(self, c, i, sequence, **parameters):
        x = [((i * 96 + k) % 17 - 8) / 8 for k in range(96)]
        return self.json("POST", "/v2/models/decoder/infer", {
            "inputs": [json_input("input_0", [1, 3, 32], x), json_input("input_1", [1], [3 * i], "INT64")],
            "parameters": {"sequence_id": sequence, **parameters}}, connection=c)["outputs"][0]["data"]

    def test_sequences(self):
        """Two sequences at once do not see each other's state; a new start forgets."""
        c = self.connect()
        alone = [self.step(c, i, 1, sequence_start=i == 0, sequence_end=i == 2) for i in range(3)]
        mixed = []
        for i in range(3):
            mixed.append(self.step(c, i, 2, sequence_start=i == 0))
            self.step(c, i, "2", sequence_start=i == 0, sequence_end=i == 2)
        self.assertEqual(mixed, alone)
        again = [self.step(c, i, 2, sequence_start=i == 0) for i in range(3)]
        self.assertEqual(again, alone)
        late = [self.step(c, 0, 3, sequence_start=True), self.step(c, 2, 3)]
        self.assertNotEqual(late[1], alone[2])  # else the test would not see a state at all

    def test_sequences_that_cannot_be(self):
        request = {"inputs": [json_input("input_0", [1, 3, 32], [0] * 96), json_input("input_1", [1], [0], "INT64")]}
        self.refuse("POST", "/v2/models/decoder/infer", request, has="must specify a non-zero or non-empty correlation ID")
        self.refuse("POST", "/v2/models/decoder/infer", {**request, "parameters": {"sequence_id": 77}},
                    has="must specify the START flag")
        c = self.connect()
        self.step(c, 0, 5, sequence_start=True, sequence_end=True)
        self.refuse("POST", "/v2/models/decoder/infer", {**request, "parameters": {"sequence_id": 5}}, connection=c, has="START")
        self.refuse("POST", "/v2/models/decoder/infer", {**request, "parameters": {"sequence_id": [1]}}, has="sequence_id")

    def test_sequences_of_one_user(self):
        """All connections of a user to the Unix socket are one client."""
        a, b = gateway.UnixConnection(self.path), gateway.UnixConnection(self.path)
        for c in a, b:
            self.addCleanup(c.close)
        first = [self.step(a, 0, 9, sequence_start=True), self.step(b, 1, 9, sequence_end=True)]
        tcp = self.connect()
        self.assertEqual(first, [self.step(tcp, 0, 9, sequence_start=True), self.step(tcp, 1, 9)])

    def test_classification(self):
        x = numbers(3 * 224 * 224)
        head = {"inputs": [binary_input("input_0", [1, 3, 224, 224], x)]}
        scores = struct.unpack("<1000f", self.infer("efficientnet_lite0", {**head, "parameters": BINARY}, x)[1]["output_0"])
        best = sorted(range(1000), key=lambda i: (-scores[i], i))[:3]
        wanted = [f"{scores[i]:.6f}:{i}" for i in best]
        answer, _ = self.infer("efficientnet_lite0", {**head, "outputs": [
            {"name": "output_0", "parameters": {"classification": 3}}]}, x)
        self.assertEqual(answer["outputs"], [{"name": "output_0", "datatype": "BYTES", "shape": [1, 3], "data": wanted}])
        _, outputs = self.infer("efficientnet_lite0", {**head, "outputs": [
            {"name": "output_0", "parameters": {"classification": 3, "binary_data": True}}]}, x)
        self.assertEqual(outputs["output_0"], b"".join(struct.pack("<I", len(w)) + w.encode() for w in wanted))

    def test_wrong_inputs(self):
        good = json_input("input_0", [2], [1, 2])
        for wrong in ({}, {"inputs": 5}, {"inputs": []}, {"inputs": [good, good]}, {"inputs": [{}]}, {"inputs": [5]},
                      {"inputs": [{**good, "name": "x"}]}, {"inputs": [{**good, "name": 5}]},
                      {"inputs": [{**good, "datatype": "FP64"}]}, {"inputs": [{**good, "datatype": "BYTES"}]},
                      {"inputs": [{**good, "datatype": 5}]}, {"inputs": [{**good, "shape": [3]}]},
                      {"inputs": [{**good, "shape": [-2]}]}, {"inputs": [{**good, "shape": [2, 1]}]},
                      {"inputs": [{**good, "shape": [1 << 62, 4]}]}, {"inputs": [{**good, "shape": [1] * 17}]},
                      {"inputs": [{**good, "shape": ["2"]}]}, {"inputs": [{**good, "data": [1]}]},
                      {"inputs": [{**good, "data": [1, 2, 3]}]}, {"inputs": [{**good, "data": [1, "2"]}]},
                      {"inputs": [{**good, "data": [1, None]}]}, {"inputs": [{**good, "data": "12"}]},
                      {"inputs": [{**good, "data": [1, 1e39]}]}, {"inputs": [{**good, "data": [[[1]], {}]}]},
                      {"inputs": [{**good, "parameters": {"binary_data_size": 8}}]},
                      {"inputs": [{"name": "input_0", "datatype": "FP32", "shape": [2]}]},
                      {"inputs": [binary_input("input_0", [2], b"1234")]}, {"inputs": [binary_input("input_0", [2], b"12345678")]},
                      {"inputs": [good], "outputs": [{"name": "x"}]}, {"inputs": [good], "outputs": [{}]},
                      {"inputs": [good], "outputs": [{"name": "output_0"}, {"name": "output_0"}]},
                      {"inputs": [good], "outputs": [{"name": "output_0", "parameters": {"classification": -1}}]},
                      {"inputs": [good], "outputs": [{"name": "output_0", "parameters": {"binary_data": 1}}]},
                      {"inputs": [good], "id": 5}, {"inputs": [good], "id": "x" * 300}, {"inputs": [good], "parameters": 5},
                      {"inputs": [good], "parameters": {"timeout": -1}}, [], [[]]):
            self.refuse("POST", "/v2/models/add_one/infer", wrong)
        for wrong in 1 << 63, 9.5, True:
            self.refuse("POST", "/v2/models/left_out/infer", {"inputs": [
                json_input("input_0", [4], [1] * 4), json_input("input_1", [1], [wrong], "INT64"),
                json_input("input_2", [1], [1], "FP64"), json_input("input_3", [1], [True], "BOOL")]})
        self.refuse("POST", "/v2/models/none/infer", {"inputs": [good]}, status=404, has="Request for unknown model: 'none'")
        self.refuse("POST", "/v2/models/add_one/versions/2/infer", {"inputs": [good]}, status=404, has="unknown model")

    def test_not_finite(self):
        x = floats(float("nan"), float("inf"))
        head = {"inputs": [binary_input("input_0", [2], x)], "parameters": BINARY}
        y = struct.unpack("<2f", self.infer("add_one", head, x)[1]["output_0"])
        self.assertTrue(y[0] != y[0] and y[1] == float("inf"))
        text = json.dumps({"inputs": head["inputs"]}).encode()
        self.refuse("POST", "/v2/models/add_one/infer", text + x, has="NaN", headers={
            "Inference-Header-Content-Length": str(len(text))})
        self.refuse("POST", "/v2/models/add_one/infer", '{"inputs":[{"name":"input_0","datatype":"FP32","shape":[2],"data":[NaN,1]}]}')

    def test_hang_up(self):
        """Who hangs up has no request in the queue any more."""
        text = json.dumps({"inputs": [json_input("input_0", [2], [1, 2])]}).encode()
        request = b"POST /v2/models/add_one/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
        s = self.raw(request)
        self.assertIn(b"200 OK", s.recv(4096))
        with gateway.Paused(self.daemon.process.pid):
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            s.settimeout(120)
            self.live()
        while s.recv(4096):
            pass
        self.live()


class Labels(gateway.Case):
    models = {"add_one": gateway.PROGRAMS["add_one"]}

    @classmethod
    def prepare(cls):
        (cls.folder / "models" / "add_one" / "model.conf").write_text(gateway.LABELS, encoding="utf-8")

    def test_labels_and_names(self):
        self.assertEqual(self.json("GET", "/v2/models/add_one")["outputs"][0]["name"], "scores")
        answer = self.json("POST", "/v2/models/add_one/infer", {
            "inputs": [json_input("input_0", [2], [1, 5])],
            "outputs": [{"name": "scores", "parameters": {"classification": 9}}]})
        self.assertEqual(answer["outputs"][0]["data"], ["6.000000:1:one or two", "2.000000:0:none"])


class Memory(gateway.Case):
    """System shared memory: files of the gateway's own user."""

    config = "shared_memory = yes\n"
    models = {"add_one": gateway.PROGRAMS["add_one"], "last": gateway.PROGRAMS["last"], "efficientnet_lite0": gateway.EFFICIENTNET}

    def file(self, data, mode=0o600):
        path = SHM / f"inferd-http-{os.getpid()}-{time.monotonic_ns()}"
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as f:
            f.write(data)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def register(self, name, path, n_bytes, offset=0, status=200, **options):
        body = {"key": f"/{path.name}", "offset": offset, "byte_size": n_bytes}
        if status != 200:
            return self.refuse("POST", f"/v2/systemsharedmemory/region/{name}/register", body, status, **options)
        self.addCleanup(self.json, "POST", f"/v2/systemsharedmemory/region/{name}/unregister")
        return self.json("POST", f"/v2/systemsharedmemory/region/{name}/register", body)

    @staticmethod
    def place(region, n_bytes, offset=0):
        return {"shared_memory_region": region, "shared_memory_byte_size": n_bytes, "shared_memory_offset": offset}

    def request(self, a, b):
        return {"inputs": [{"name": "input_0", "datatype": "FP32", "shape": [2], "parameters": a}],
                "outputs": [{"name": "output_0", "parameters": b}]}

    def test_both_ways(self):
        path = self.file(bytes(8) + floats(1, 2) + bytes(16))
        self.register("a", path, 24, 8)
        answer = self.json("POST", "/v2/models/add_one/infer", self.request(self.place("a", 8), self.place("a", 8, 16)))
        self.assertEqual(answer["outputs"], [{"name": "output_0", "datatype": "FP32", "shape": [2]}])
        self.assertEqual(path.read_bytes(), bytes(8) + floats(1, 2) + bytes(8) + floats(2, 3))
        status = self.json("GET", "/v2/systemsharedmemory/status")
        self.assertEqual(status, [{"name": "a", "key": f"/{path.name}", "offset": 8, "byte_size": 24}])
        self.assertEqual(self.json("GET", "/v2/systemsharedmemory/region/a/status"), status)
        self.refuse("GET", "/v2/systemsharedmemory/region/b/status", status=404, has="Unable to find system shared memory region")

    def test_order_of_dimensions(self):
        x = numbers(180)
        path = self.file(x + bytes(384))
        self.register("a", path, 720 + 384)
        y = self.infer("last", {"inputs": [binary_input("input_0", [2, 3, 5, 6], x)], "parameters": BINARY}, x)[1]["output_0"]
        self.json("POST", "/v2/models/last/infer", {
            "inputs": [{"name": "input_0", "datatype": "FP32", "shape": [2, 3, 5, 6], "parameters": self.place("a", 720)}],
            "outputs": [{"name": "output_0", "parameters": self.place("a", 384, 720)}]})
        self.assertEqual(path.read_bytes()[720:], y)

    def test_bounds(self):
        path = self.file(bytes(64))
        self.register("a", path, 65, status=400, has="outside")
        self.register("a", path, 64, 1, status=400, has="outside")
        self.register("a", path, 64, (1 << 63) - 1, status=400, has="outside")
        self.register("a", path, (1 << 63) - 1, (1 << 63) - 1, status=400, has="may have")
        self.register("a", path, 0, status=400)
        for offset in -1, 1 << 64, "0", 1.5:
            self.refuse("POST", "/v2/systemsharedmemory/region/a/register", {
                "key": f"/{path.name}", "offset": offset, "byte_size": 4})
        self.register("a", path, 16, 48)
        self.register("a", path, 16, 48, status=400, has="already")
        good = self.place("a", 8)
        self.json("POST", "/v2/models/add_one/infer", self.request(good, self.place("a", 8, 8)))
        for wrong in (self.place("b", 8), self.place("a", 4), self.place("a", 16), self.place("a", 8, 9), self.place("a", 8, -1),
                      self.place("a", 8, (1 << 63) - 1), {"shared_memory_region": "a"}, {"shared_memory_offset": 0},
                      {"shared_memory_region": 5, "shared_memory_byte_size": 8}):
            self.refuse("POST", "/v2/models/add_one/infer", self.request(wrong, good))
        for wrong in self.place("b", 8), self.place("a", 4), self.place("a", 8, 9), self.place("a", 8, (1 << 63) - 1):
            self.refuse("POST", "/v2/models/add_one/infer", self.request(good, wrong))
        self.refuse("POST", "/v2/models/add_one/infer", self.request(good, {**good, "classification": 1}), has="classification")

    def test_keys(self):
        """Paths, links, FIFOs and other users' files are refused, without waiting and without naming the key."""
        path = self.file(bytes(64))
        link = SHM / f"{path.name}-link"
        link.symlink_to(path)
        self.addCleanup(link.unlink)
        fifo = SHM / f"{path.name}-fifo"
        os.mkfifo(fifo)
        self.addCleanup(fifo.unlink)
        folder = SHM / f"{path.name}-folder"
        folder.mkdir()
        self.addCleanup(folder.rmdir)
        (folder / "x").write_bytes(bytes(64))
        self.addCleanup((folder / "x").unlink)
        for key in (link.name, fifo.name, folder.name, f"{folder.name}/x", f"../shm/{path.name}", "/", "", ".", "..", "//" + path.name,
                    f"/dev/shm/{path.name}", "/../../etc/passwd", "none", "x" * 300, 5, None):
            said = self.refuse("POST", "/v2/systemsharedmemory/region/k/register", {"key": key, "offset": 0, "byte_size": 4})
            if isinstance(key, str) and len(key) > 4:
                self.assertNotIn(key, said)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
            self.register("k", path, 64, status=400)

    def test_regions_come_and_go(self):
        paths = [self.file(floats(i, i) + bytes(8)) for i in range(4)]
        for name, path in zip("abc", paths):
            self.register(name, path, 16)
            self.json("POST", "/v2/models/add_one/infer", self.request(self.place(name, 8), self.place(name, 8, 8)))
        self.json("POST", "/v2/systemsharedmemory/region/a/unregister")
        self.register("d", paths[3], 16)
        for i, name in (1, "b"), (2, "c"), (3, "d"):
            paths[i].write_bytes(floats(i, 5) + bytes(8))
            self.json("POST", "/v2/models/add_one/infer", self.request(self.place(name, 8), self.place(name, 8, 8)))
            self.assertEqual(paths[i].read_bytes(), floats(i, 5, i + 1, 6))

    def test_a_file_larger_than_the_memory(self):
        """Only a region's own pages are mapped, and only so many; a hole is zeros."""
        path, n = self.file(b""), 1 << 40
        os.truncate(path, n)
        self.register("all", path, n, status=400, has="may have")
        self.register("end", path, 20, n - 20)
        self.json("POST", "/v2/models/add_one/infer", self.request(self.place("end", 8, 4), self.place("end", 8, 12)))
        with open(path, "rb") as f:
            f.seek(n - 20)
            self.assertEqual(f.read(), bytes(12) + floats(1, 1))

    def test_a_file_that_shrinks(self):
        path = self.file(floats(1, 2) + bytes(8192))
        self.register("a", path, 8200)
        os.truncate(path, 4)
        self.refuse("POST", "/v2/models/add_one/infer", self.request(self.place("a", 8), self.place("a", 8, 8000)), has="smaller")
        os.truncate(path, 8)
        self.refuse("POST", "/v2/models/add_one/infer", self.request(self.place("a", 8), self.place("a", 8, 8000)), has="smaller")
        self.assertEqual(path.stat().st_size, 8)
        path.write_bytes(floats(3, 4) + bytes(8192))
        self.json("POST", "/v2/models/add_one/infer", self.request(self.place("a", 8), self.place("a", 8, 8000)))
        self.assertEqual(path.read_bytes()[8000:8008], floats(4, 5))

    def test_a_file_that_shrinks_meanwhile(self):
        """Pages that vanish while they are copied fail a request, not the gateway."""
        n = 4 * 3 * 224 * 224
        path = self.file(bytes(n))
        self.register("a", path, n)
        request = {"inputs": [{"name": "input_0", "datatype": "FP32", "shape": [1, 3, 224, 224], "parameters": self.place("a", n)}]}
        c, is_over = self.connect(), threading.Event()
        good = self.json("POST", "/v2/models/efficientnet_lite0/infer", request, connection=c)
        caught = re.search(r"SigCgt:\s+(\w+)", pathlib.Path(f"/proc/{self.gateway.process.pid}/status").read_text())[1]
        self.assertTrue(int(caught, 16) >> (signal.SIGBUS - 1) & 1, "the SIGBUS guard is not installed")

        def shrink():
            while not is_over.is_set():
                os.truncate(path, 0)
                os.truncate(path, n)
        thread = threading.Thread(target=shrink)
        thread.start()
        try:
            for _ in range(40):
                code, _, text = self.ask("POST", "/v2/models/efficientnet_lite0/infer", json.dumps(request), connection=c)
                self.assertTrue(code == 200 or (code == 400 and b"smaller" in text), (code, text))
        finally:
            is_over.set()
            thread.join()
        self.assertEqual(self.json("POST", "/v2/models/efficientnet_lite0/infer", request, connection=c), good)

    def test_others_regions(self):
        """What a client over TCP has registered, a user of the Unix socket neither sees, uses nor unregisters."""
        path, other = self.file(floats(1, 2) + bytes(8)), self.file(floats(5, 6) + bytes(8))
        self.register("a", path, 16)
        c = gateway.UnixConnection(self.path)
        self.addCleanup(c.close)
        request = self.request(self.place("a", 8), self.place("a", 8, 8))
        self.assertEqual(self.json("GET", "/v2/systemsharedmemory/status", connection=c), [])
        self.refuse("GET", "/v2/systemsharedmemory/region/a/status", status=404, connection=c)
        self.refuse("POST", "/v2/models/add_one/infer", request, has="Unable to find", connection=c)
        for what in "region/a/", "":
            self.json("POST", f"/v2/systemsharedmemory/{what}unregister", connection=c)
        self.json("POST", "/v2/models/add_one/infer", request)
        self.assertEqual(path.read_bytes(), floats(1, 2, 2, 3))
        self.json("POST", "/v2/systemsharedmemory/region/a/register", {"key": other.name, "byte_size": 16}, connection=c)
        self.json("POST", "/v2/models/add_one/infer", request, connection=c)
        self.assertEqual((path.read_bytes(), other.read_bytes()), (floats(1, 2, 2, 3), floats(5, 6, 6, 7)))
        self.json("POST", "/v2/systemsharedmemory/unregister", connection=c)
        self.assertEqual([m["key"] for m in self.json("GET", "/v2/systemsharedmemory/status")], [f"/{path.name}"])

    def test_many_regions(self):
        path = self.file(bytes(64))
        for i in range(64):
            self.register(f"r{i}", path, 64)
        self.register("more", path, 64, status=429)
        self.assertEqual(self.json("POST", "/v2/systemsharedmemory/unregister"), {})
        self.assertEqual(self.json("GET", "/v2/systemsharedmemory/status"), [])


if __name__ == "__main__":
    gateway.main()
