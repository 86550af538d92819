#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the gateway with clients that lie, dawdle, hang up, and send bombs. Each time it serves on.

    test_rude.py INFERD INFERD-HTTP INFERCTL
"""
import contextlib
import gzip
import http.client
import json
import os
import random
import socket
import struct
import threading
import zlib

import gateway
from gateway import BINARY, binary_input, floats, json_input

HEAD = json.dumps({"inputs": [binary_input("input_0", [2], floats(1, 2))], "parameters": BINARY}).encode()


def post(path, body, *headers, length=None):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def infer(body, *headers, **options):
    return post("/v2/models/add_one/infer", body, f"Inference-Header-Content-Length: {len(HEAD)}", *headers, **options)


class Rude(gateway.Case):
    models = {"add_one": gateway.PROGRAMS["add_one"], "last": gateway.PROGRAMS["last"],
              "efficientnet_lite0": gateway.EFFICIENTNET}
    config = ("receive_timeout = 2s\nidle_timeout = 2s\nsend_timeout = 2s\njson_limit = 512K\nbody_limit = 4M\nmemory = 24M\n"
              "connections = 64\n")

    def tearDown(self):
        self.live()

    def closed(self, s):
        """All that comes until the gateway closes the connection."""
        parts = []
        try:
            while True:
                part = s.recv(65536)
                if not part:
                    break
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def test_header_length_that_lies(self):
        body = HEAD + floats(1, 2)
        for wrong in len(body) + 1, len(HEAD) - 1, len(HEAD) + 1, 1, -1, "x", "", "1e3", "0x10", 1 << 70:
            self.refuse("POST", "/v2/models/add_one/infer", body, headers={"Inference-Header-Content-Length": str(wrong)})
        self.refuse("POST", "/v2/models/add_one/infer", body, 413, headers={"Inference-Header-Content-Length": str(1 << 40)})

    def test_bodies_that_lie(self):
        size = {"Inference-Header-Content-Length": str(len(HEAD))}
        for wrong, has in ((HEAD, "shorter"), (HEAD + floats(1), "shorter"), (HEAD + floats(1, 2, 3), "longer"),
                           (HEAD + bytes(100000), "longer")):
            self.refuse("POST", "/v2/models/add_one/infer", wrong, headers=size, has=has)

    def test_ten_gigabytes_announced(self):
        s = self.raw(infer(HEAD, length=10 << 30))
        self.assertIn(b" 413 ", self.closed(s))
        s = self.raw(post("/v2/models/add_one/infer", b"", length=1 << 70))
        self.assertRegex(self.closed(s), rb" 4\d\d ")

    def test_refused_with_a_large_body(self):
        """A refusal does not wait for a body that is larger than what the gateway drops."""
        evil = post("/v2/models/add_one/infer", b"", "Origin: http://evil.example", length=1 << 40)
        for request, code in ((evil, 403), (post("/v2/nothing", b"", length=1 << 40), 404),
                              (post("/v2/health/live", b"", length=1 << 40), 405),
                              (post("/v2/models/add_one/infer", b"", "Content-Encoding: br", length=1 << 40), 415)):
            self.assertIn(b" %d " % code, self.closed(self.raw(request)))

    def test_large_json(self):
        many = json.dumps({"inputs": [json_input("input_0", [2], [1, 2])], "x": "y" * 600000})
        self.refuse("POST", "/v2/models/add_one/infer", many, 413)
        self.refuse("POST", "/v2/repository/index", "x" * 100000, 413)

    def test_json_that_is_none(self):
        for wrong in (b"", b"{", b"\xff\xfe", b"{}" * 3, b'{"inputs":[' + b"[" * 100000, b"[" * 3000 + b"]" * 3000,
                      b'{"a":' * 5000 + b"1" + b"}" * 5000, b'{"id":"\\u0000"}', b'{"id":"\xc3\x28"}', b'{"inputs":[1e999]}',
                      b'{"x":' + b"1" * 400000 + b"}", b"\0" * 100):
            self.refuse("POST", "/v2/models/add_one/infer", wrong)
        deep = b'{"inputs":[{"name":"input_0","datatype":"FP32","shape":[2],"data":' + b"[" * 1000 + b"1,2" + b"]" * 1000 + b"}]}"
        self.assertEqual(self.ask("POST", "/v2/models/add_one/infer", deep)[0], 200)

    def test_many_small_values(self):
        """Half a megabyte of JSON becomes twelve megabytes of a tree, which are counted."""
        text = b'{"inputs":[{"name":"input_0","datatype":"FP32","shape":[250000],"data":[' + b"1," * 250000
        self.refuse("POST", "/v2/models/add_one/infer", text[:-1] + b"]}]}", has="shape")
        self.refuse("POST", "/v2/models/add_one/infer", b"[" + b"{}," * 170000 + b"{}]", 503, has="no memory left for this JSON")

    def test_bombs(self):
        for bomb in (gzip.compress(bytes(200 << 20), 9), gzip.compress(b'{"a":"' + b"b" * (3 << 20)),
                     zlib.compress(b"[" * (8 << 20), 9)):
            encoding = "gzip" if bomb[0] == 0x1f else "deflate"
            self.refuse("POST", "/v2/models/add_one/infer", bomb, 413, headers={"Content-Encoding": encoding})
        size = {"Inference-Header-Content-Length": str(len(HEAD)), "Content-Encoding": "gzip"}
        self.refuse("POST", "/v2/models/add_one/infer", gzip.compress(HEAD + bytes(100 << 20), 9), headers=size, has="longer")

    def test_compressed_data_that_is_damaged(self):
        whole = gzip.compress(HEAD + floats(1, 2))
        size = {"Inference-Header-Content-Length": str(len(HEAD)), "Content-Encoding": "gzip"}
        for wrong in (b"", b"x", whole[:-1], whole[:20], whole + b"x", whole + whole, whole[:30] + bytes(10) + whole[40:],
                      HEAD + floats(1, 2)):
            self.refuse("POST", "/v2/models/add_one/infer", wrong, headers=size)
        self.refuse("POST", "/v2/models/add_one/infer", whole, 415, headers={"Content-Encoding": "br"})

    def test_bytes_one_by_one(self):
        """A whole request, byte by byte, is served; one that does not end in its time is not."""
        text = infer(HEAD + floats(1, 2), "Connection: close")
        s = self.raw()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(text)):
            s.sendall(text[i:i + 1])
        self.assertTrue(self.closed(s).endswith(floats(2, 3)))

    def test_dawdling(self):
        """Connections that send nothing more are closed, wherever they stopped."""
        text = infer(HEAD + floats(1, 2))
        slow = [self.raw(text[:n]) for n in (0, 1, 20, text.index(b"\r\n\r\n"), text.index(b"\r\n\r\n") + 4, len(text) - 30,
                                             len(text) - 1)]
        for s in slow:
            self.assertNotIn(b" 200 ", self.closed(s))

    def test_a_byte_now_and_then(self):
        """Activity does not prolong the time that a request may take."""
        s, ended = self.raw(b"GET /v2/health/live HTTP/1.1\r\nX: "), threading.Event()

        def trickle():
            try:
                while not ended.wait(0.05):
                    s.sendall(b"x")
            except OSError:
                pass
        t = threading.Thread(target=trickle)
        t.start()
        self.assertNotIn(b" 200 ", self.closed(s))
        ended.set()
        t.join()

    def test_answers_that_nobody_reads(self):
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(120)
        s.connect(("127.0.0.1", self.port))
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            while True:
                s.sendall(b"GET /v2/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)

    def test_pipelining(self):
        body = infer(HEAD + floats(1, 2))
        s = self.raw(body * 50 + b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertEqual(self.closed(s).count(b"HTTP/1.1 200 OK"), 51)

    def test_chunks(self):
        body = HEAD + floats(1, 2)
        head = ("POST /v2/models/add_one/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                f"Inference-Header-Content-Length: {len(HEAD)}\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7))
        self.assertTrue(self.closed(self.raw(head + chunks + b"0\r\n\r\n")).endswith(floats(2, 3)))
        for wrong in (b"zz\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"5\r\nabcdefg"):
            self.assertNotIn(b" 200 ", self.closed(self.raw(head + wrong)))
        s = self.raw(head)
        try:
            for _ in range(2000):
                s.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")
        except OSError:
            pass
        self.assertNotIn(b" 200 ", self.closed(s))

    def test_headers(self):
        for wrong in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET /v2\r\n\r\n", b"GET /v2 HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0" * 50,
                      b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n",
                      b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 100000 + b"\r\n",
                      b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                      b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                      b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
                      b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            s = self.raw()
            try:
                s.sendall(wrong)
            except OSError:
                pass
            self.assertNotIn(b'"name":"inferd"', self.closed(s))

    def test_random_bytes(self):
        r = random.Random(5)
        whole = infer(HEAD + floats(1, 2))
        for _ in range(60):
            text = bytearray(whole)
            for _ in range(r.randrange(1, 6)):
                text[r.randrange(len(text))] = r.randrange(256)
            s = self.raw(bytes(text))
            with contextlib.suppress(OSError):  # it may have been closed already
                s.shutdown(socket.SHUT_WR)
            self.closed(s)

    def test_hanging_up_anywhere(self):
        whole = infer(HEAD + floats(1, 2))
        for n in range(0, len(whole) + 1, 3):
            self.raw(whole[:n]).close()
        large = struct.pack("<602112x")
        head = json.dumps({"inputs": [binary_input("input_0", [1, 3, 224, 224], large)]}).encode()
        for n in 100000, len(large):
            s = self.raw(post("/v2/models/efficientnet_lite0/infer", head + large[:n],
                              f"Inference-Header-Content-Length: {len(head)}", length=len(head) + len(large)))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()

    def test_memory(self):
        """Requests that would need more than the gateway may take are refused, and what they held is given back."""
        x = struct.pack("<602112x")
        head = json.dumps({"inputs": [binary_input("input_0", [1, 3, 224, 224], x)], "parameters": BINARY}).encode()
        request = post("/v2/models/efficientnet_lite0/infer", head + x, f"Inference-Header-Content-Length: {len(head)}")
        for _ in range(3):
            held = [self.raw(request[:-1]) for _ in range(50)]
            for s in held:
                s.sendall(request[-1:])
            codes = set()
            for s in held:
                r = http.client.HTTPResponse(s)
                try:
                    r.begin()
                    codes.add(r.status)
                except (OSError, http.client.HTTPException):
                    codes.add(0)
                s.close()
            self.assertIn(200, codes)
            self.assertLessEqual(codes, {0, 200, 503})
        _, outputs = self.infer("efficientnet_lite0", json.loads(head), x)
        self.assertEqual(len(outputs["output_0"]), 4000)

    def test_descriptors(self):
        """Nothing stays open of all this."""
        folder = f"/proc/{self.gateway.process.pid}/fd"
        self.infer("add_one", json.loads(HEAD), floats(1, 2))
        for _ in range(30):
            self.infer("add_one", json.loads(HEAD), floats(1, 2), headers={"Connection": "close"})
        self.assertLess(len(os.listdir(folder)), 300)


if __name__ == "__main__":
    gateway.main()
