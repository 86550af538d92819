#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test inferctl import, rollback and versions: what serves afterwards, and that the repository is whole after a crash.

    test_deploy.py INFERCTL INFERD
"""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = os.path.join(TOP, "tests", "models", "small")
FIRST, SECOND = (os.path.join(SMALL, name) for name in ("channels_last.bpte", "gelu_xnnpack.bpte"))
INFERCTL, INFERD = None, None


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class Repository(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="deploy-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.models = os.path.join(self.folder, "models")
        os.mkdir(self.models)

    def path(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content)
        return path

    def call(self, *args, before=(), **more):
        return subprocess.run([*before, INFERCTL, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=120, **more)

    def good(self, *args):
        r = self.call(*args)
        self.assertEqual(r.returncode, 0, f"{args}: {r.stderr}{r.stdout}")
        return r.stdout

    def fails(self, text, *args, status=1, **more):
        r = self.call(*args, **more)
        self.assertEqual(r.returncode, status, f"{args}: {r.stderr}{r.stdout}")
        self.assertIn(text, r.stderr)
        return r.stderr

    def tree(self, models=None):
        """The files of the repository that are not hidden, with their contents."""
        found, models = {}, models or self.models
        for at, folders, files in os.walk(models):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found[os.path.relpath(at, models)] = None
            for name in files:
                path = os.path.join(at, name)
                found[os.path.relpath(path, models)] = (digest(path), os.stat(path).st_mode & 0o777)
        return found

    def hidden(self):
        return [name for name in os.listdir(self.models) if name.startswith(".")]


class Offline(Repository):
    def offline(self, *args):
        return [*args, "--offline", "--repository", self.models]

    def test_versions_count_up(self):
        conf = self.path("model.conf", b"[input 0]\nname = x\n[output 0]\nlabels_file = labels.txt\n")
        labels = self.path("labels.txt", b"a\nb\n")
        self.good(*self.offline("import", FIRST, conf, labels, "--name", "m"))
        self.good(*self.offline("import", SECOND, "--name", "m"))
        self.good(*self.offline("import", SECOND, "--name", "m", "--version", "7"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.models, "m"))), ["1", "2", "7"])
        self.assertEqual(sorted(os.listdir(os.path.join(self.models, "m", "1"))),
                         ["channels_last.bpte", "labels.txt", "model.conf"])
        self.assertEqual(self.tree()["m/1/channels_last.bpte"], (digest(FIRST), 0o644))
        self.fails("has a version 7 already; without --version it becomes version 8",
                   *self.offline("import", FIRST, "--name", "m", "--version", "7"))
        os.mkdir(os.path.join(self.models, "m", "9"))  # empty, so no version for the daemon either
        self.good(*self.offline("rollback", "m"))
        self.assertIn("m/7.rolled-back/gelu_xnnpack.bpte", self.tree())
        self.good(*self.offline("import", FIRST, "--name", "m"))  # 7 is used: nobody shall mistake one for the other
        self.assertIn("m/8/channels_last.bpte", self.tree())
        self.assertEqual(self.hidden(), [])

    def test_inspect_shows_the_description(self):
        program = self.path("m.bpte", b"")
        shutil.copy(FIRST, program)
        self.path("model.conf", b"[input 0]\nname = camera\nlayout = NHWC\ncolour = RGB\nscale = 2\noffset = -1\n"
                  b"[output 0]\nname = scores\nlabels = cat, dog\n")
        out = self.good("inspect", program)
        self.assertIn("camera, NHWC RGB image: 2 * pixel -1; 2 * pixel -1; 2 * pixel -1", out)
        self.assertIn("scores, 2 labels: cat, ...", out)
        self.path("model.conf", b"[input 0]\ncolor = RGB\n")
        self.assertIn("model.conf:2: unknown key 'color'", self.good("inspect", program))
        self.fails("is a zip file", "inspect", self.path("net.pt", b"PK\3\4...."))

    def test_one_file_is_version_1(self):
        shutil.copy(FIRST, os.path.join(self.models, "flat.bpte"))
        self.good(*self.offline("import", SECOND, "--name", "flat"))
        self.assertIn("flat/2/gelu_xnnpack.bpte", self.tree())

    def test_refusals(self):
        before = self.tree()
        for name in ("../x", "a/b", "", ".hidden", "/etc", ".."):
            self.fails("can't be the name of a model", *self.offline("import", FIRST, "--name", name), status=2)
            self.fails("can't be the name of a model", *self.offline("rollback", name), status=2)
        for version in ("1.bak", "-1", "01", "latest", "../1", "1000000000"):
            self.fails("versions are whole numbers", *self.offline("import", FIRST, "--name", "m", "--version", version),
                       status=2)
        zipped = self.path("net.pte", b"PK\3\4" + bytes(100))
        lfs = self.path("lfs.pte", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
        onnx = self.path("net.onnx", b"\x08\x08\x12\x07pytorch" + bytes(100))
        with open(FIRST, "rb") as f:
            cut = self.path("cut.bpte", f.read()[:200])
        other = self.path("a/channels_last.bpte", b"x")
        conf = self.path("model.conf", b"[model]\nversion = 1\n")
        for text, files in (("is a zip file", [zipped]), ("is a pointer of git-lfs", [lfs]), ("is an ONNX model", [onnx]),
                            (cut, [cut]), ("have the same name", [FIRST, other]), ("model.conf:2: version", [FIRST, conf]),
                            ("a version holds programs", [FIRST, INFERCTL]), ("name a program", [self.path("x.ptd", b"x")]),
                            ("No such file", [self.folder + "/none.pte"])):
            self.fails(text, *self.offline("import", *files, "--name", "m"))
        self.fails("no model 'm'", *self.offline("rollback", "m"))
        self.fails("--offline needs --repository", "rollback", "m", "--offline")
        self.assertEqual(self.tree(), before)
        self.good(*self.offline("import", FIRST, "--name", "m"))
        self.fails("no version before 1", *self.offline("rollback", "m"))
        self.path("models/m/model.conf", b"[model]\nversion = 1\n")
        self.good(*self.offline("import", FIRST, "--name", "m"))
        self.fails("says which version serves", *self.offline("rollback", "m"))

    def test_full_disk(self):
        """A file that can't be written to its end leaves the repository as it was."""
        self.good(*self.offline("import", FIRST, "--name", "m"))
        before = self.tree()
        limit = os.path.getsize(SECOND) // 2
        self.fails("can't be copied", *self.offline("import", SECOND, "--name", "m"),
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(self.tree(), before)
        self.assertEqual(self.hidden(), [])

    def calls_of(self, args):
        """The system calls of the command's first thread, in order: (name, arguments). strace counts for each thread, and a
        sanitizer has threads of its own. strace must be allowed to trace."""
        log = os.path.join(self.folder, "strace")
        self.assertEqual(self.call(*args, before=["strace", "-f", "-o", log]).returncode, 0)
        with open(log, encoding="utf-8") as f:
            calls = re.findall(r"^(\d+) +(\w+)\((.*)$", f.read(), re.MULTILINE)
        return [(name, rest) for thread, name, rest in calls if thread == calls[0][0]]

    def fill_everywhere(self, args):
        """At each call that needs room on the disk there is none: the command says so, and the repository is the old one."""
        old, pristine, n = self.tree(), self.models + ".pristine", {}
        shutil.copytree(self.models, pristine)
        calls = self.calls_of(args)
        first = next(i for i, (call, _) in enumerate(calls) if call in ("mkdirat", "renameat2"))  # a sanitizer has files, too
        for i, (call, rest) in enumerate(calls[first:], first):
            is_output = call == "write" and rest.split(",")[0] in ("1", "2")
            is_look = call == "openat" and "O_CREAT" not in rest
            if call not in ("mkdirat", "openat", "write", "fsync", "renameat2") or is_output or is_look:
                continue
            shutil.rmtree(self.models)
            shutil.copytree(pristine, self.models)
            which = [name for name, _ in calls[:i]].count(call) + 1
            err = self.fails("No space left on device", *args,
                             before=["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                     f"inject={call}:error=ENOSPC:when={which}"])
            self.assertEqual((self.tree(), self.hidden()), (old, []), f"{call} {which}: {err}")
            n[call] = n.get(call, 0) + 1
        shutil.rmtree(self.models)
        os.rename(pristine, self.models)
        return n

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_full_disk_at_every_call(self):
        if self.call("--version", before=["strace", "-f", "-o", "/dev/null"]).returncode:
            self.skipTest("strace may not trace here")
        for name in ("new", "m"):  # a model that is new, and another version
            n = self.fill_everywhere(self.offline("import", FIRST, "--name", name))
            self.assertEqual(sorted(n), ["fsync", "mkdirat", "openat", "renameat2", "write"])
            self.assertGreaterEqual(n["fsync"], 4)
            self.good(*self.offline("import", FIRST, "--name", "m"))
        n = self.fill_everywhere(self.offline("rollback", "m"))
        self.assertEqual(n, {"renameat2": 1, "fsync": 1})

    def kill_everywhere(self, args, old, new):
        """Kill the command at each of its system calls: the repository is @old or @new."""
        seen, pristine = set(), self.models + ".pristine"
        shutil.copytree(self.models, pristine)

        def begin():
            shutil.rmtree(self.models)
            shutil.copytree(pristine, self.models)

        calls = [name for name, _ in self.calls_of(args)]
        self.assertIn("renameat2", calls)
        for i, call in enumerate(calls):
            begin()
            r = self.call(*args, before=["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                         f"inject={call}:signal=KILL:when={calls[:i].count(call) + 1}"])
            now = self.tree()
            self.assertIn(now, (old, new), f"killed at call {i} of {len(calls)}, {call}")
            # memory is asked for more or less often from run to run; strace itself makes the first call
            is_memory = call in ("execve", "brk", "mmap", "munmap", "mprotect", "madvise", "futex", "exit_group")
            self.assertTrue(is_memory or r.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), f"{call}: {r.stderr}")
            seen.add(now == new)
            if i % 10 == 0 and now == old:  # what was left behind is no obstacle
                self.good(*args)
                self.assertEqual((self.tree(), self.hidden()), (new, []))
        self.assertEqual(seen, {False, True})
        begin()
        self.good(*args)
        shutil.rmtree(pristine)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_killed_at_every_call(self):
        if self.call("--version", before=["strace", "-f", "-o", "/dev/null"]).returncode:
            self.skipTest("strace may not trace here")
        reference = os.path.join(self.folder, "reference")
        os.mkdir(reference)
        empty = self.tree()
        self.good("import", FIRST, "--name", "m", "--offline", "--repository", reference)
        self.kill_everywhere(self.offline("import", FIRST, "--name", "m"), empty, self.tree(reference))
        old = self.tree()
        import_ = self.offline("import", SECOND, "--name", "m")
        self.good("import", SECOND, "--name", "m", "--offline", "--repository", reference)
        new = self.tree(reference)
        self.assertNotEqual(old, new)
        self.kill_everywhere(import_, old, new)
        old = self.tree()
        self.good("rollback", "m", "--offline", "--repository", reference)
        self.kill_everywhere(self.offline("rollback", "m"), old, self.tree(reference))


class Online(Repository):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.folder, "inferd.sock")
        conf = self.path("inferd.conf", f"[server]\nsocket = {self.socket}\nmanager_socket = {self.folder}/inferd-manager.sock\n"
                         f"models = {self.models}\ncache =\nworkers = 2\n".encode())
        with open(os.path.join(self.folder, "log"), "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen([INFERD, "--config", conf], stdout=log, stderr=log)
        self.addCleanup(self.end)
        deadline = time.monotonic() + 120
        while self.call("--socket", self.socket, "models").returncode != 0:
            self.assertTrue(self.daemon.poll() is None and time.monotonic() < deadline, "inferd does not answer")

    def end(self):
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(60), 0)

    def ask(self, *args):
        return self.good("--socket", self.socket, *args)

    def serving(self, name):
        entries = json.loads(self.ask("versions", "--json", name))["models"]
        return [(e["version"], e["file"]) for e in entries if e["serves"]]

    def test_import_and_rollback(self):
        conf = self.path("model.conf", b"[model]\nwarm_up = 1\n")
        out = self.ask("import", FIRST, conf, "--name", "m")
        self.assertIn("m: version 1 was imported; version 1 serves", out)
        self.assertEqual(self.serving("m"), [("1", os.path.join(self.models, "m/1/channels_last.bpte"))])
        client = subprocess.Popen([INFERCTL, "--socket", self.socket, "bench", "m", "--requests", "2000"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out = self.ask("import", SECOND, "--name", "m", "--json")
        self.assertEqual(json.loads(out), {"model": "m", "done": "imported", "version": 2, "serves": "2"})
        self.assertEqual(self.serving("m")[0][0], "2")
        _, err = client.communicate(timeout=120)
        self.assertEqual((client.returncode, err), (0, ""))  # who had it open was not disturbed
        out = self.ask("rollback", "m")
        self.assertIn("m: version 2 was rolled back; version 1 serves", out)
        self.assertEqual(self.serving("m")[0][0], "1")
        self.assertIn("it was rolled back", self.ask("versions", "m"))
        self.assertIn(digest(FIRST)[:12], self.ask("versions", "m"))

    def test_what_does_not_load_is_taken_out(self):
        self.ask("import", FIRST, "--name", "m")
        before = self.tree()
        with open(SECOND, "rb") as f:
            data = f.read()
        self.assertIn(b"XnnpackBackend", data)
        foreign = self.path("foreign.bpte", data.replace(b"XnnpackBackend", b"XnnpockBackend"))
        err = self.fails("Backend 'XnnpockBackend' is not available", "--socket", self.socket, "import", foreign, "--name", "m")
        self.assertIn("version 2 of m was taken out again; what served before goes on", err)
        self.fails("XnnpockBackend", "--socket", self.socket, "import", foreign, "--name", "new")
        self.assertEqual((self.tree(), self.hidden()), (before, []))
        self.assertEqual(self.serving("m")[0][0], "1")
        # a version that does not load is no better to roll back to
        shutil.copytree(os.path.join(self.models, "m", "1"), os.path.join(self.models, "m", "2"))
        os.remove(os.path.join(self.models, "m", "1", "channels_last.bpte"))
        shutil.copy(foreign, os.path.join(self.models, "m", "1"))
        self.ask("load", "m")
        self.fails("version 2 of m stays", "--socket", self.socket, "rollback", "m")
        self.assertEqual(self.serving("m")[0][0], "2")

    def test_failed_rollback_of_an_unloaded_model(self):
        """The daemon tries the version before, turns to an older one, and must be told that the newest is there again."""
        with open(SECOND, "rb") as f:
            foreign = self.path("foreign.bpte", f.read().replace(b"XnnpackBackend", b"XnnpockBackend"))
        for version, file in enumerate((FIRST, foreign, FIRST), 1):
            os.makedirs(os.path.join(self.models, "m", str(version)))
            shutil.copy(file, os.path.join(self.models, "m", str(version)))
        self.fails("version 3 of m stays", "--socket", self.socket, "rollback", "m")
        self.assertEqual(self.serving("m")[0][0], "3")

    def test_without_a_daemon(self):
        before = self.tree()
        self.fails("no daemon listens", "--socket", self.folder + "/none.sock", "--manager", self.folder + "/none.sock",
                   "import", FIRST, "--name", "m", "--repository", self.models)
        self.assertEqual(self.tree(), before)


if __name__ == "__main__":
    INFERCTL, INFERD = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=2)
