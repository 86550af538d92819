#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test clients/scale/serve, which the container runs: a daemon and a gateway, without privileges.

    test_container.py INFERD INFERD-HTTP INFERCTL
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import gateway

FOLDER = gateway.TOP / "clients" / "scale"
NOBODY = 65534
DROP = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
        "--no-new-privs"]


class Container(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="inferd-container-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in "bin", "models/add_one/1", "run":
            (self.folder / name).mkdir(parents=True)
        for program in gateway.Case.inferd, gateway.Case.inferd_http:
            (self.folder / "bin" / pathlib.Path(program).name).symlink_to(pathlib.Path(program).resolve())
        shutil.copy(gateway.PROGRAMS["add_one"], self.folder / "models" / "add_one" / "1")
        self.folder.chmod(0o755)
        if os.getuid() == 0:
            os.chown(self.folder / "run", NOBODY, NOBODY)
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", INFERD_MODELS=f"{self.folder}/models",
                           INFERD_SOCKET=f"{self.folder}/run/inferd.sock", INFERD_WORKERS="1")
        command = [str(FOLDER / "serve"), "--config", str(FOLDER / "inferd-http.conf"), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen((DROP if os.getuid() == 0 else []) + command, env=environment, text=True,
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        self.lines, self.is_read = [], threading.Condition()
        reader = threading.Thread(target=self.read)
        reader.start()
        self.addCleanup(self.process.stderr.close)
        self.addCleanup(reader.join)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.kill)
        self.port = int(self.wait_for(r"port (\d+)"))
        deadline = time.monotonic() + 120
        while self.ask("GET", "/v2/models/add_one/ready")[0] != 200:  # as the kubelet does
            self.assertLess(time.monotonic(), deadline, self.lines)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def read(self):
        for line in self.process.stderr:
            with self.is_read:
                self.lines.append(line)
                self.is_read.notify_all()

    def wait_for(self, pattern):
        """The first group of what the processes have logged, or all of it."""
        with self.is_read:
            found = self.is_read.wait_for(lambda: re.search(pattern, "".join(self.lines)), 120)
        self.assertTrue(found, self.lines)
        return found.group(found.lastindex or 0)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self.addCleanup(c.close)
        c.request(method, path, body, {"Host": "add-one.models.example"})  # a name that only the cluster knows
        r = c.getresponse()
        return r.status, json.loads(r.read())

    def children(self):
        """{name: pid} of the two processes."""
        pids = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {pathlib.Path(f"/proc/{pid}/comm").read_text().strip(): int(pid) for pid in pids}

    def infer(self):
        status, answer = self.ask("POST", "/v2/models/add_one/infer", json.dumps(
            {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}))
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, [2, 3]))

    def test_serves_without_privileges(self):
        self.infer()
        children = self.children()
        self.assertEqual(set(children), {"inferd", "inferd-http"})
        for pid in children.values():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            if os.getuid() == 0:
                self.assertRegex(status, rf"Uid:\t{NOBODY}\t{NOBODY}")
            self.assertRegex(status, r"CapEff:\t0+\n")
        self.process.terminate()
        self.assertEqual(self.process.wait(120), 0, self.lines)

    def test_ends_when_one_ends(self):
        for name in "inferd", "inferd-http":
            with self.subTest(name):
                self.infer()
                os.kill(self.children()[name], signal.SIGKILL)
                self.assertEqual(self.process.wait(120), 1, self.lines)
                self.doCleanups()
                self.setUp()
        self.process.terminate()

    def test_image_has_what_it_starts(self):
        text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
        packages = re.findall(r"^Package: (\S+)$", (gateway.TOP / "debian" / "control").read_text(encoding="utf-8"), re.M)
        copied, = re.findall(r"^COPY (.*\.deb) /tmp/$", text, re.M)
        self.assertLessEqual({name.removesuffix("_*.deb") for name in copied.split()}, set(packages))
        for source in re.findall(r"^COPY inferd/(\S+)", text, re.M):
            self.assertTrue((gateway.TOP / source).exists(), source)


if __name__ == "__main__":
    gateway.main()
