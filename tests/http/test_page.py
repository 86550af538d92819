#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the page for browsers without one: its headers and its policy, what it reads, and who may ask as the page.

    test_page.py INFERD INFERD-HTTP INFERCTL
"""
import base64
import hashlib
import html.parser
import json
import os
import re
import subprocess
import sys
import unittest

import gateway

HOSTILE = "<script>alert(1)<"
OTHER = 65534  # a user
CONF = """[input 0]
name = pixels & <b>
layout = NCHW
colour = BGR
scale = 0.5 0.25 0.125
offset = -1
"""


class Elements(html.parser.HTMLParser):
    """The texts of scripts and styles, and what elements have that a policy is about."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.links, self.handlers, self.inside = {"script": [], "style": []}, [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside = tag if tag in self.texts else None
        if self.inside:
            self.texts[tag].append("")
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside][-1] += data


def policy_of(headers):
    """{directive: [source...]}"""
    return {name: rest for name, *rest in (part.split() for part in headers["Content-Security-Policy"].split(";"))}


class Page(gateway.Case):
    models = {"add_one": gateway.PROGRAMS["add_one"], "image": gateway.EFFICIENTNET, HOSTILE: gateway.PROGRAMS["numbers"]}
    config = "page = yes\nhosts = gateway.example\n"

    @classmethod
    def prepare(cls):
        (cls.folder / "models" / "image" / "model.conf").write_text(CONF, encoding="utf-8")
        broken = cls.folder / "models" / "broken" / "3"
        broken.mkdir(parents=True)
        (broken / "x.pte").write_bytes(b"no program\n" * 20)

    def page(self):
        code, headers, text = self.ask("GET", "/")
        self.assertEqual(code, 200)
        return headers, text.decode()

    def test_headers(self):
        headers, text = self.page()
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        self.assertEqual(headers["X-Frame-Options"], "DENY")
        self.assertEqual(headers["Cross-Origin-Opener-Policy"], "same-origin")
        self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
        self.assertEqual(headers["Cache-Control"], "no-store")
        code, again, body = self.ask("HEAD", "/")
        self.assertEqual((code, again["Content-Length"], body), (200, str(len(text.encode())), b""))
        self.assertEqual(again["Content-Security-Policy"], headers["Content-Security-Policy"])
        self.assertEqual(self.ask("GET", "/?x=1")[2].decode(), text)

    def test_policy(self):
        """It names the script and the style that the page has, and nothing else but the gateway."""
        headers, text = self.page()
        policy, elements = policy_of(headers), Elements(text)
        for kind in "script", "style":
            one, = elements.texts[kind]
            digest = base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
            self.assertEqual(policy.pop(f"{kind}-src"), [f"'sha256-{digest}'"])
        self.assertEqual(policy, {
            "default-src": ["'none'"], "img-src": ["blob:", "data:"], "media-src": ["blob:"], "connect-src": ["'self'"],
            "base-uri": ["'none'"], "form-action": ["'none'"], "frame-ancestors": ["'none'"],
            "require-trusted-types-for": ["'script'"], "trusted-types": ["'none'"]})
        self.assertEqual([link for link in elements.links if not link.startswith("data:")], [])
        self.assertEqual(elements.handlers, [])

    def test_nothing_makes_markup(self):
        """Names are strangers' input: the script makes text of them."""
        script, = Elements(self.page()[1]).texts["script"]
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "DOMParser", "srcdoc"):
            self.assertNotIn(word, script)
        self.assertEqual(set(re.findall(r"https?://[^\s'\"]*", script)), {"http://www.w3.org/2000/svg"})  # a name, not an address

    def test_status(self):
        before = self.json("GET", "/v2/inferd/status")
        request = {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}
        c = self.connect()
        for _ in range(3):
            self.json("POST", "/v2/models/add_one/infer", request, connection=c)
        status = self.json("GET", "/v2/inferd/status")
        self.assertEqual(status["requests"] - before["requests"], 3)
        self.assertGreaterEqual(status["uptime_ns"], before["uptime_ns"])
        self.assertRegex(status["version"], r"^\d+\.\d+")
        cpu, = [q for q in status["queues"] if q["name"] == "cpu"]
        self.assertGreater(cpu["workers"], 0)
        self.assertEqual((cpu["running"], cpu["waiting"]), (0, 0))
        program, = [p for p in status["programs"] if p["name"] == "add_one"]
        self.assertEqual((program["version"], program["backend"]), ("1", "portable"))
        self.assertGreaterEqual(program["requests"], 3)
        self.assertGreater(status["memory_used"], 0)
        self.assertEqual(status["memory_budget"], 0)
        self.assertIn("portable", status["backends"])
        self.assertGreaterEqual(status["connections"]["count"], 1)
        limits = {limit["name"]: limit for limit in status["user"]["limits"]}
        self.assertLessEqual(1, limits["methods"]["used"])
        self.assertLess(limits["methods"]["used"], limits["methods"]["limit"])
        headers = self.ask("GET", "/v2/inferd/status")[1]
        self.assertEqual((headers["X-Content-Type-Options"], headers["Cache-Control"]), ("nosniff", "no-store"))

    def test_models(self):
        self.refuse("GET", "/v2/models/broken", status=503)  # tries to load it
        self.json("GET", "/v2/models/add_one")
        models = {m["name"]: m for m in self.json("GET", "/v2/inferd/models")["models"]}
        self.assertEqual(sorted(models), sorted([*self.models, "broken"]))
        self.assertEqual((models["broken"]["state"], models["broken"]["version"]), ("FAILED", "3"))
        self.assertIn("x.pte", models["broken"]["reason"])
        one = models["add_one"]
        self.assertEqual((one["state"], one["serves"], one["backend"], one["file"], one["files"]),
                         ("READY", True, "portable", ["constants.pte"], ["constants.pte"]))
        self.assertGreater(one["memory_bytes"], 0)

    def test_no_folders(self):
        """The names of files are told, not where the daemon has them."""
        self.json("GET", "/v2/models/add_one")
        for path in "/v2/inferd/status", "/v2/inferd/models":
            self.assertNotIn(str(self.folder), json.dumps(self.json("GET", path)))

    def test_images_in_the_configuration(self):
        config = self.json("GET", "/v2/models/image/config")
        self.assertEqual({key: value["string_value"] for key, value in config["parameters"].items()},
                         {"pixels & <b>.layout": "NCHW", "pixels & <b>.colour": "BGR", "pixels & <b>.scale": "0.5 0.25 0.125",
                          "pixels & <b>.offset": "-1 -1 -1"})
        self.assertEqual(self.json("GET", "/v2/models/add_one/config")["parameters"], {})

    def test_methods(self):
        for path in "/", "/v2/inferd/status", "/v2/inferd/models":
            code, headers, _ = self.ask("POST", path, "{}")
            self.assertEqual((code, headers["Allow"]), (405, "GET"))
        for path in "/index.html", "/v2/inferd", "/v2/inferd/status/x", "/favicon.ico", "/%2e%2e", "/v2/..":
            self.refuse("GET", path, status=404)

    def test_host(self):
        """A browser that was led here from evil.example sends that name."""
        for path in "/", "/v2/inferd/status", "/v2/inferd/models":
            for host in "evil.example", f"evil.example:{self.port}", "", "[::1":
                self.refuse("GET", path, status=403, headers={"Host": host})
            for host in "localhost", f"127.0.0.1:{self.port}", "gateway.example":
                self.assertEqual(self.ask("GET", path, headers={"Host": host})[0], 200)

    def test_origin(self):
        """The page itself may send requests; what other pages send is refused, also those of another port."""
        request = json.dumps({"inputs": [gateway.json_input("input_0", [2], [1, 2])]})

        def code(origin, host):
            return self.ask("POST", "/v2/models/add_one/infer", request, {"Host": host, "Origin": origin})[0]
        mine = f"127.0.0.1:{self.port}"
        self.assertEqual(code(f"http://{mine}", mine), 200)
        self.assertEqual(code("https://gateway.example", "gateway.example"), 200)  # a proxy with TLS is in front
        for origin, host in ((f"http://127.0.0.1:{self.port + 1}", mine), ("http://evil.example", mine), ("null", mine), ("", mine),
                             (f"http://{mine}/", mine), (f"http://{mine}.evil.example", mine), (f"ftp://{mine}", mine), (mine, mine),
                             ("http://evil.example", "evil.example"), (f"http://localhost:{self.port}", mine), ("http://", "")):
            self.assertEqual(code(origin, host), 403, (origin, host))
        c = gateway.UnixConnection(self.path)  # where Host alone does not matter
        self.addCleanup(c.close)
        self.refuse("POST", "/v2/models/add_one/infer", request, status=403, connection=c,
                    headers={"Host": "evil.example", "Origin": "http://evil.example"})

    def test_one_client_for_all_connections(self):
        """A browser has several connections; a sequence of the page goes on over each of them, and nobody else has it."""
        mine = f"127.0.0.1:{self.port}"

        def step(headers, **parameters):
            request = {"inputs": [gateway.json_input("input_0", [2], [1, 2])], "parameters": {"sequence_id": "page-1", **parameters}}
            return self.ask("POST", "/v2/models/add_one/infer", json.dumps(request), headers)[0]
        page = {"Origin": f"http://{mine}"}
        self.assertEqual(step(page, sequence_start=True), 200)
        self.assertEqual(step(page), 200)
        self.assertEqual(step({}), 400)
        self.assertEqual(step(page, sequence_end=True), 200)
        self.assertEqual(step(page), 400)


class Manager(gateway.Case):
    """The gateway's user may manage the daemon, which therefore tells it of everybody."""

    models = {"add_one": gateway.PROGRAMS["add_one"]}
    config = "page = yes\nload = yes\n"

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_others_are_left_out(self):
        before = self.json("GET", "/v2/inferd/status")
        self.folder.chmod(0o755)
        script = "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.connect(sys.argv[1])\nprint(flush=True)\nsys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", script, self.socket], user=OTHER, group=OTHER, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            told = json.loads(self.run_inferctl("status", "--json"))
            self.assertIn(OTHER, [client["uid"] for client in told["clients"]])
            status = self.json("GET", "/v2/inferd/status")
            other.stdin.close()
        self.assertEqual(status["connections"]["count"], before["connections"]["count"])
        limits = {limit["name"]: limit["used"] for limit in status["user"]["limits"]}
        self.assertEqual(limits["connections"], status["connections"]["count"])


class AnyHost(gateway.Case):
    """`hosts = *` lets in any Host, but no page of another's name."""

    models = {"add_one": gateway.PROGRAMS["add_one"]}
    config = "page = yes\nhosts = *\n"

    def test_origin(self):
        mine = f"127.0.0.1:{self.port}"
        self.assertEqual(self.ask("GET", "/v2", headers={"Host": "any.example"})[0], 200)
        self.assertEqual(self.ask("GET", "/v2", headers={"Host": mine, "Origin": f"http://{mine}"})[0], 200)
        self.refuse("GET", "/v2", status=403, headers={"Host": "any.example", "Origin": "http://any.example"}, has="browser")


class Off(gateway.Case):
    """Without `page = yes` there is none."""

    models = {"add_one": gateway.PROGRAMS["add_one"]}

    def test_off(self):
        for method in "GET", "HEAD":
            for path in "/", "/v2/inferd/status", "/v2/inferd/models":
                self.assertEqual(self.ask(method, path)[0], 404)
        self.refuse("GET", "/", status=404, has="'page' in inferd-http.conf")
        mine = f"127.0.0.1:{self.port}"
        self.refuse("GET", "/v2", status=403, headers={"Host": mine, "Origin": f"http://{mine}"}, has="browser")


if __name__ == "__main__":
    gateway.main()
