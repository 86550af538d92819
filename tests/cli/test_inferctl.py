#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the inferctl program: exit statuses, messages, JSON, and that results are the same with the daemon and --local.

    test_inferctl.py INFERCTL [INFERD [CLASSIFY]]

Without INFERD, the tests that need a daemon are skipped; without CLASSIFY (clients/examples), the test of four applications.
"""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
import unittest

import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "tests", "models", "efficientnet_lite0_int8.pte")
EXTERNAL = os.path.join(TOP, "tests", "models", "external")
DATA_FILES = os.path.join(TOP, "tests", "models", "data_files")
PTD = "_default_external_constant.ptd"
SMALL = os.path.join(TOP, "tests", "models", "small")
CORPUS = os.path.join(TOP, "tests", "corpus")
MANUAL = os.path.join(TOP, "docs", "man", "inferctl.1")
COMMANDS = ["status", "models", "why", "load", "unload", "import", "rollback", "versions", "restart",
            "inspect", "infer", "verify", "bench"]
DATA = os.path.join(TOP, "tests", "data")
INFERCTL, INFERD, CLASSIFY = None, None, None


def call(*args, env=None):
    r = subprocess.run([INFERCTL, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, check=False, env={**os.environ, **(env or {})}, timeout=120)
    return r.returncode, r.stdout, r.stderr


class Etdump:
    """The events of an ETDump, read by hand: devtools/etdump/etdump_schema_flatcc.fbs."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.b = f.read()
        assert self.u("I", 0) == len(self.b) - 4 and self.b[8:12] == b"ED00"
        runs = self.vector(4 + self.u("I", 4), 1)
        assert len(runs) == 1 and self.text(runs[0], 0) == "Execute"
        self.events = [self.event(self.table(e, 0)) for e in self.vector(runs[0], 3)]

    def u(self, kind, at):
        return struct.unpack_from("<" + kind, self.b, at)[0]

    def field(self, table, index):
        vtable = table - self.u("i", table)
        return table + self.u("H", vtable + 4 + 2 * index) if 4 + 2 * index < self.u("H", vtable) and \
            self.u("H", vtable + 4 + 2 * index) else 0

    def table(self, table, index):
        at = self.field(table, index)
        return at + self.u("I", at)

    def vector(self, table, index):
        at = self.table(table, index)
        return [at + 4 + 4 * i + self.u("I", at + 4 + 4 * i) for i in range(self.u("I", at))]

    def text(self, table, index):
        at = self.field(table, index) and self.table(table, index)
        return at and self.b[at + 4:at + 4 + self.u("I", at)].decode()

    def number(self, table, index, kind, absent):
        at = self.field(table, index)
        assert not at or at % struct.calcsize(kind) == 0, "aligned"
        return self.u(kind, at) if at else absent

    def event(self, e):
        begin, end = (self.number(e, i, "Q", 0) for i in (6, 7))
        assert begin <= end
        return {"name": self.text(e, 0), "part": self.text(e, 4), "chain": self.number(e, 1, "i", 0),
                "instruction": self.number(e, 2, "i", -1), "begin": begin, "end": end}

    def names(self):
        return [e["name"] for e in self.events if e["instruction"] >= 0 and e["name"]]

    def whole(self, name):
        return next(e for e in self.events if e["name"] == name)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="inferctl-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(content)
        return path

    def good(self, *args):
        status, out, err = call(*args)
        self.assertEqual(status, 0, f"{args}: {err}{out}")
        self.assertEqual(err, "")
        return out

    def external(self, folder):
        """A program in a folder of its own, and the bytes of its data file, which is not there yet."""
        os.makedirs(self.path(folder), exist_ok=True)
        shutil.copy(os.path.join(EXTERNAL, "mlp.bpte"), self.path(folder))
        with open(os.path.join(EXTERNAL, PTD), "rb") as f:
            return f.read()

    def broken_data(self):
        """(what is said, a data file that is not right) for a program in a folder of its own."""
        data = self.external("unused")
        return [
            (r"tensor '0.weight' lies outside the file(, and|:) no data file was given", None),
            (r"tensor '0.weight' lies outside the file: .*nothing of that name", data.replace(b"0.weight", b"9.weight")),
            (r"tensor '0.weight' lies outside the file: .*another tensor of that name: FP32 \[\d+,\d+\], not FP32 \[",
             data.replace(b"0.weight", b"9.weight").replace(b"2.weight", b"0.weight")),
            (r"data.ptd: truncated: the header speaks of", data[:9000]),
            (r"data.ptd: not a data file of version FT01", b"what is this?" * 10),
        ]

    def check_profiles(self, before, after):
        """Of a program for kernels and one for a delegate, as both files say it."""
        kernels = ["native_call_permute_copy.out", "native_call_addmm.out", "native_call_relu.out",
                   "native_call_permute_copy.out", "native_call_addmm.out"]
        gelu = os.path.join(TOP, "tests", "models", "small", "gelu_xnnpack.bpte")
        if before:  # another process runs a program that is brought along: its instructions are parts of one call
            kernels = ["DELEGATE_CALL"]
        for model, expected in ((os.path.join(EXTERNAL, "mlp.bpte"), kernels), (gelu, ["DELEGATE_CALL"])):
            for name in ("x.etdump", "x.json"):
                self.good(*before, "infer", *after, model, "--profile", self.path(name))
            dump = Etdump(self.path("x.etdump"))
            self.assertEqual(dump.names(), expected)
            whole = dump.whole("Method::execute")
            self.assertEqual((whole["chain"], whole["instruction"]), (-1, -1))
            last = whole["begin"]
            for i, event in enumerate(e for e in dump.events if e["instruction"] >= 0 and e["name"]):
                self.assertEqual((event["chain"], event["instruction"]), (0, i))
                self.assertLessEqual(last, event["begin"])
                last = event["end"]
            self.assertLessEqual(last, whole["end"])
            parts = [e["part"] for e in dump.events if e["part"]]
            self.assertEqual(bool(parts), expected == ["DELEGATE_CALL"])
            self.assertEqual(len(parts), len(set(parts)), "each has a name of its own")
            with open(self.path("x.json")) as f:
                trace = json.load(f)["traceEvents"]
            named = [e["name"] for e in trace if e["ph"] == "X"]
            self.assertEqual([n for n in named if n in expected + parts], [n for n in (
                e["name"] or e["part"] for e in dump.events) if n in expected + parts])
            self.assertIn("Method::execute", named)
            self.assertEqual(min(e["ts"] for e in trace if e["ph"] == "X"), 0)
            for event in trace:
                if event["ph"] == "X":
                    self.assertEqual(event["tid"], 1 if event["cat"] == "request" else
                                     2 if event["cat"] == "instruction" else 3)
        result = json.loads(self.good(*before, "bench", *after, "-n", "2", "--json", gelu, "--profile", self.path("b.etdump")))
        self.assertEqual(result["requests"], 2)
        self.assertEqual(Etdump(self.path("b.etdump")).names(), ["DELEGATE_CALL"])
        status, _, err = call(*before, "infer", *after, gelu, "--profile", self.path("no/where.json"))
        self.assertEqual(status, 1)
        self.assertRegex(err, "--profile .*no/where.json: No such file")

    def check_numbers(self, before, after):
        """Inputs and outputs that are no tensors."""
        program = os.path.join(SMALL, "left_out.pte")
        np.save(self.path("a.npy"), np.array([1, -2, 3, 0], "f4"))

        def given(*inputs):
            return (*before, "infer", *after, program, "-i", self.path("a.npy"), *(w for i in inputs for w in ("-i", i)))

        for three, truth in (("3", "true"), ("0x3", "1"), ("3e0", "true")):
            self.good(*given(three, "0.5", truth, "none", "none"), "-o", self.path("y.npy"))
            np.testing.assert_array_equal(np.load(self.path("y.npy")), np.array([3.5, -5.5, 9.5, 0.5], "f4"))
        for pattern, *inputs in (("input 1 is a number: give its value", "three", "0.5", "true", "none", "none"),
                                 ("input 1: .* exported for one value of this Int", "3e5", "0.5", "true", "none", "none"),
                                 ("input 3: .* exported for one value of this Bool", "3", "0.5", "false", "none", "none"),
                                 (r"1e\+300 does not fit an integer", "1e300", "0.5", "true", "none", "none"),
                                 (r"3\.7 does not fit an integer", "3.7", "0.5", "true", "none", "none"),
                                 ("nan does not fit", "nan", "0.5", "true", "none", "none"),
                                 ("input 3 is a bool: give true or false", "3", "0.5", "yes", "none", "none"),
                                 ("input 4 is left out by the program: give none", "3", "0.5", "true", "w", "none"),
                                 ("input 5 is left out by the program: give none", "3", "0.5", "true", "none", "0"),
                                 ("has 6 inputs, but 4 were given", "3", "0.5", "true")):
            self.fails(pattern, *given(*inputs))
        numbers = os.path.join(SMALL, "numbers.bpte")
        self.assertIn("1 passed, 0 failed, 0 skipped", self.good(*before, "verify", *after, numbers))
        outputs = json.loads(self.good(*before, "infer", *after, "--json", numbers))["outputs"]
        self.assertEqual([output["kind"] for output in outputs], ["Tensor", "Double", "Bool", "Int"])

    def check_strings(self, before, after):
        """What a method answers that is a string: the same in a daemon's words and in a file."""
        program = os.path.join(SMALL, "constants.pte")
        name = 'caf\u00e9 "\u4e2d" \x1b[31m\n'
        infer = [*before, "infer", *after]
        out = self.good(*infer, program, "--method", "get_name", "-o", self.path("name.txt"))
        self.assertIn('output 0: STRING of 18 bytes  "caf\u00e9 \\"\u4e2d\\" \\u001B[31m\\n"\n', out)
        with open(self.path("name.txt"), "rb") as f:
            self.assertEqual(f.read(), name.encode())
        seen = json.loads(self.good("--json", *infer, program, "--method", "get_name"))
        self.assertEqual(seen["outputs"], [{"kind": "String", "value": name}])
        self.fails("cannot be written as .npy", *infer, program, "-m", "get_name", "-o", self.path("name.npy"))
        with open(program, "rb") as f:
            raw = f.read().replace("caf\u00e9".encode(), b"caf\xff\xfe")
        self.assertIn('"(no UTF-8)"', self.good(*infer, self.path("raw.pte", raw), "-m", "get_name"))
        self.assertIn("DOUBLE 0.5", self.good(*infer, program, "--method", "get_scale"))

    def check_steps(self, before, after):
        """Several methods in one call: as `verify` runs them, on the same buffers."""
        bundle = os.path.join(SMALL, "shared_caches.bpte")
        self.good(*before, "verify", *after, bundle, "--raw", self.path("raw"))

        def run(*methods):
            files = [self.path(f"{i}.raw") for i in range(len(methods))]
            named = [w for m in methods for w in ("-m", m)]
            out = self.good(*before, "infer", *after, bundle, *named, *(w for f in files for w in ("-o", f)))
            contents = []
            for name in files:
                with open(name, "rb") as f:
                    contents.append(f.read())
            return out, contents

        out, (begun, decoded) = run("begin", "decode")
        self.assertEqual(re.findall("^[a-z]+$", out, re.M), ["begin", "decode"])
        for got, name in ((begun, "0-0-0.raw"), (decoded, "1-0-0.raw")):
            with open(self.path(f"raw/0/{name}"), "rb") as f:
                self.assertEqual(got, f.read())
        self.assertNotEqual(run("decode")[1], [decoded], "nothing was begun")
        steps = json.loads(self.good(*before, "infer", *after, "--json", bundle, "-m", "begin", "-m", "decode"))["steps"]
        self.assertEqual([(s["method"], s["outputs"][0]["shape"]) for s in steps], [("begin", [4, 8]), ("decode", [1, 8])])
        # The same method again: the same Method, which has its state.
        sums = os.path.join(CORPUS, "whole", "state_2_7.bpte")
        steps = json.loads(self.good(*before, "infer", *after, "--json", sums, "-m", "forward", "-m", "forward"))["steps"]
        self.assertNotEqual(steps[0]["outputs"], steps[1]["outputs"])
        # Inputs and outputs are counted over all of them, before any runs.
        inputs = [w for n in (6, 24) for w in ("-i", self.path(f"{n}.raw", struct.pack(f"<{n}f", *range(n))))]
        with open(bundle, "rb") as f:
            bare = f.read()
        bare = self.path("bare.pte", bare[bare.index(b"ET12") - 4:])
        for pattern, *args in (
                ("method 'begin' has 2 inputs: give each one with --input", bare, "-m", "begin", "-m", "level"),
                ("together have 2 inputs, but 1 were given", bundle, "-m", "square", "-m", "square", *inputs[:2]),
                (r"input 0 is FP32 \[2,3\].* at most|takes 24", bundle, "-m", "square", "-m", "square", *inputs),
                ("together have only 2 outputs, but --output was given 3 times", bundle, "-m", "level", "-m", "level",
                 "-o", self.path("x"), "-o", self.path("y"), "-o", self.path("z")),
                ("no method 'prefill'; it has: begin, decode, level, square, wipe", bundle, "-m", "begin", "-m", "prefill")):
            self.fails(pattern, *before, "infer", *after, *args)
        self.assertFalse(os.path.exists(self.path("x")))
        self.fails("only one --method", *before, "infer", *after, bundle, "-m", "level", "-m", "level", "-p", "p.json", status=2)

    def fails(self, pattern, *args, status=1):
        got, out, err = call(*args)
        self.assertEqual(got, status, f"{args}: {err}{out}")
        self.assertRegex(err, pattern)
        self.assertEqual(err.count("\n"), 1, "one line says it all")
        self.assertTrue(err.startswith("inferctl: "))


class CommandLine(Folder):
    def test_misuse(self):
        for args in ([], ["nonsense"], ["--nonsense"], ["verify"], ["inspect"], ["inspect", "a", "b"], ["status", "x"],
                     ["bench", "--clients", "0", "x"], ["bench", "--clients", "two", "x"], ["bench", "--clients"],
                     ["verify", "--atol", "-1", "x"], ["verify", "--bogus", "x"], ["verify", "-Z", "x"], ["why"]):
            status, out, err = call(*args)
            self.assertEqual(status, 2, f"{args}: {err}{out}")
            self.assertIn("--help", err + out)

    def test_help_and_manual_know_the_same_options(self):
        with open(MANUAL) as f:
            manual = f.read()
        known = set(re.findall(r"Fl -([a-z][a-z-]+)", manual))
        for command in COMMANDS:
            text = self.good(command, "--help")
            self.assertTrue(text.startswith(f"Usage: inferctl {command} "), text)
            self.assertEqual(text, self.good("help", command))
            options = set(re.findall(r"^ +(?:-\w, +)?--([a-z-]+)", text, re.M))
            self.assertLessEqual(options, known, f"{command}: the manual lacks {options - known}")
            self.assertIn(f".It Ic {command}", manual)

    def test_no_daemon(self):
        nowhere = self.path("nowhere.sock")
        for command in (["status"], ["models"], ["why", "x"], ["infer", "x"], ["bench", "x"]):
            self.fails(r"no daemon listens on .*nowhere.sock.*(--socket|systemctl)", "--socket", nowhere, *command)
        self.fails(r"no daemon listens on .*nowhere.sock: start one with 'inferd --socket .*nowhere.sock'",
            "--socket", nowhere, "status")
        self.fails(r"no daemon listens on .*nowhere-manager.sock.*--manager-socket", "--socket", nowhere, "load", "x")
        self.fails(r"no daemon listens on /run/inferd/nowhere.sock: start it with 'systemctl start inferd.socket'",
            "--socket", "/run/inferd/nowhere.sock", "status")
        status, _, err = call("status", env={"INFERD_SOCKET": nowhere})
        self.assertEqual(status, 1)
        self.assertIn(nowhere, err)

    def test_says_which_protocols_it_speaks(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path("listener.sock"))
            listener.listen()
            listener.settimeout(60)
            client = subprocess.Popen([INFERCTL, "--socket", self.path("listener.sock"), "status"], stderr=subprocess.DEVNULL)
            connection = listener.accept()[0]
            with connection:
                hello = connection.recv(65536)
            self.assertEqual(client.wait(60), 1)
        body = b"\x08\x01\x12\x08inferctl\x20\x01"  # protocol, client_name, oldest_protocol
        self.assertEqual(hello[2:], b"\x12" + bytes([len(body)]) + body)

    def test_another_program_s_socket(self):
        other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(other.close)
        other.bind(self.path("other.sock"))
        other.listen()
        self.fails("other.sock is another program's socket", "--socket", self.path("other.sock"), "status")

    def test_what_is_not_written(self):
        bundle = os.path.join(SMALL, "numbers.bpte")
        for args in (["--help"], ["--version"], ["infer", "--help"], ["inspect", bundle], ["infer", "--local", bundle]):
            with open("/dev/full", "w", encoding="ascii") as full:
                r = subprocess.run([INFERCTL, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(r.returncode, 1)
            self.assertIn("could be written to stdout: No space left", r.stderr)
            reader, writer = os.pipe()
            os.close(reader)
            r = subprocess.run([INFERCTL, *args], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
            os.close(writer)
            self.assertEqual((r.returncode, r.stderr), (1, ""), "nobody reads on, and knows it")

    def test_what_goes_with_local(self):
        for option, value in ("--config", "x"), ("--cache", "x"), ("--threads", "2"):
            for command in "infer", "bench", "verify":
                self.fails(f"{option} needs --local; .*; 'inferctl {command} --help'",
                    "--socket", "/no/such", command, option, value, MODEL, status=2)

    def test_no_colours_in_a_pipe(self):
        self.assertNotIn("\033", self.good("inspect", MODEL))


class Local(Folder):
    def test_inspect(self):
        seen = json.loads(self.good("--json", "inspect", MODEL))
        method = seen["methods"][0]
        self.assertEqual(method["name"], "forward")
        self.assertEqual([(i["datatype"], i["shape"]) for i in method["inputs"]], [("FP32", [1, 3, 224, 224])])
        self.assertEqual([(o["datatype"], o["shape"]) for o in method["outputs"]], [("FP32", [1, 1000])])
        self.assertEqual({d["backend"] for d in method["delegates"]}, {"XnnpackBackend"})
        self.assertTrue(all(d["available"] for d in method["delegates"]))
        self.assertTrue(method["plan"]["runs_here"])
        self.assertEqual(method["plan"]["state_bytes"], 0)
        text = self.good("inspect", MODEL)
        self.assertIn("XnnpackBackend", text)
        self.assertIn(f", {os.path.getsize(MODEL) / 2**20:.2f} MiB\n", text.split("constants")[0])
        self.assertIn("FP32 [1,3,224,224]", text)

    def test_inspect_says_how_long_a_call_may_take(self):
        text = self.good("inspect", MODEL)
        self.assertIn("time   a delegate call is not interrupted; its length is not estimated", text)
        self.assertNotIn("the longest kernel call", text)
        text = self.good("inspect", os.path.join(SMALL, "cadence.bpte"))
        self.assertIn("time   the longest kernel call: about 2e+05 steps at the largest sizes, roughly 0.0002 s on one core", text)
        self.assertNotIn("a delegate call is not interrupted", text)

    def test_inspect_refuses_what_is_no_program(self):
        with open(MODEL, "rb") as f:
            data = f.read()
        self.fails("none.pte: .*No such file", "inspect", self.path("none.pte"))
        self.fails("cut.pte: ", "inspect", self.path("cut.pte", data[:5000]))
        self.fails("text.pte: ", "inspect", self.path("text.pte", b"this is no program, it is a sentence"))
        self.fails("empty.pte", "inspect", self.path("empty.pte", b""))

    def test_infer_files(self):
        picture = np.linspace(-1, 1, 3 * 224 * 224, dtype="<f4").reshape(1, 3, 224, 224)
        np.save(self.path("in.npy"), picture)
        self.path("in.raw", picture.tobytes())
        out = json.loads(self.good("infer", "--local", MODEL, "-i", self.path("in.npy"), "-o", self.path("out.npy"), "--json"))
        got = np.load(self.path("out.npy"))
        self.assertEqual((got.shape, got.dtype), ((1, 1000), np.float32))
        self.assertEqual([t["index"] for t in out["outputs"][0]["top"]], list(np.argsort(-got[0], kind="stable")[:5]))
        self.good("infer", "--local", MODEL, "--input", self.path("in.raw"), "--output", self.path("out.raw"))
        np.testing.assert_array_equal(np.fromfile(self.path("out.raw"), "<f4"), got[0])
        np.save(self.path("last.npy"), np.asfortranarray(picture))  # the same numbers, lying the other way round
        self.good("infer", "--local", MODEL, "-i", self.path("last.npy"), "-o", self.path("out.raw"))
        np.testing.assert_array_equal(np.fromfile(self.path("out.raw"), "<f4"), got[0])

    def test_cache(self):
        """Packed weights that an earlier process kept: the same numbers, also when the file was damaged meanwhile."""
        picture = np.linspace(-1, 1, 3 * 224 * 224, dtype="<f4").reshape(1, 3, 224, 224)
        np.save(self.path("in.npy"), picture)
        cache = self.path("cache")
        os.mkdir(cache, 0o700)
        command = ("infer", "--local", "--cache", cache, MODEL, "-i", self.path("in.npy"), "-o", self.path("out.raw"))

        def output():
            with open(self.path("out.raw"), "rb") as f:
                return f.read()

        self.good(*command)
        expected = output()
        kept = [name for name in os.listdir(cache) if name.endswith(".kept")]
        self.assertEqual(len(kept), 1)
        kept = os.path.join(cache, kept[0])
        before = os.stat(kept)
        self.good(*command)
        self.assertEqual(output(), expected)
        self.assertEqual(os.stat(kept).st_ino, before.st_ino, "nothing was new")
        with open(kept, "r+b") as f:
            f.seek(before.st_size // 2)
            byte = f.read(1)[0]
            f.seek(before.st_size // 2)
            f.write(bytes([byte ^ 1]))
        status, _, err = call(*command)
        self.assertEqual(status, 0)
        self.assertRegex(err, "not used \\(damaged\\); it is made again")
        self.assertEqual(output(), expected)
        self.good(*command)
        self.assertEqual(output(), expected)
        # What keeps nothing is not asked which data files lie beside it.
        self.path("beside/data.ptd", b"what is this?")
        for name, said in ("channels_last", "^$"), ("gelu_xnnpack", "packed weights are not cached: .*data.ptd: not a data file"):
            program = shutil.copy(os.path.join(SMALL, name + ".bpte"), self.path("beside"))
            status, _, err = call("bench", "--local", "-n", "1", "--cache", cache, program)
            self.assertEqual(status, 0, err)
            self.assertRegex(err, said)
        self.fails("the cache cannot be used: .*nowhere", "infer", "--local", "--cache", self.path("nowhere"), MODEL)

    def test_cache_with_a_data_file(self):
        """Filters in a .ptd that changes under its name: what was packed of the other contents is not used."""
        cache = self.path("cache")
        os.mkdir(cache, 0o700)
        for name in ("first.bpte", PTD):
            with open(os.path.join(DATA_FILES, "weights.ptd" if name == PTD else name), "rb") as f:
                content = f.read()
            self.path(name, content)
        command = ("infer", "--local", "--json", "--cache", cache, self.path("first.bpte"),
                   "-i", self.path("in.raw", np.linspace(-1, 1, 108, dtype="<f4").tobytes()))
        answers, n_kept = [], []
        for change in (0, 0, 1, 1, 0):
            self.path(PTD, content[:-200] + bytes(byte ^ change for byte in content[-200:]))
            answers.append(json.loads(self.good(*command))["outputs"])
            n_kept.append(sum(name.endswith(".kept") for name in os.listdir(cache)))
        self.assertEqual([answers[0]] * 2 + [answers[2]] * 2 + [answers[0]], answers)
        self.assertNotEqual(answers[0], answers[2])
        self.assertEqual(n_kept, [1, 1, 2, 2, 2])

    def test_inputs_may_lie_in_any_order(self):
        x = np.linspace(-2, 2, 3 * 224 * 224, dtype="f4").reshape(1, 3, 224, 224)
        answers = []
        for name, array in (("rows.npy", x), ("columns.npy", np.asfortranarray(x))):
            np.save(self.path(name), array)
            answers.append(json.loads(self.good("infer", "--local", "--json", MODEL, "-i", self.path(name)))["outputs"])
        self.assertEqual(answers[0], answers[1])

    def test_infer_refuses_what_does_not_fit(self):
        np.save(self.path("type.npy"), np.zeros((1, 3, 224, 224)))
        np.save(self.path("shape.npy"), np.zeros((1, 3, 10, 10), "f4"))
        self.path("short.raw", bytes(100))
        for name, pattern in (("type.npy", r"input 0 is FP64 \[1,3,224,224\], expected FP32 \[1,3,224,224\]"),
                              ("shape.npy", r"input 0 is FP32 \[1,3,10,10\], expected FP32 \[1,3,224,224\]"),
                              ("short.raw", "it has 100 bytes, .* takes 602112"),
                              ("none.npy", r"No such file.*; input 0 is FP32 \[1,3,224,224\]: give a .npy file")):
            self.fails(pattern, "infer", "--local", MODEL, "-i", self.path(name))
        self.fails(r"give each one with --input .*input 0 is FP32 \[1,3,224,224\]", "infer", "--local", MODEL)
        self.fails("inspect takes a file, not the name of a model", "inspect", "efficientnet_lite0")
        self.fails("has 1 input, but 2 were given", "infer", "--local", MODEL, "-i", self.path("shape.npy"), "-i", "x")

    def test_numbers(self):
        self.check_numbers([], ["--local"])

    def test_steps(self):
        self.check_steps([], ["--local"])

    def test_verify(self):
        programs = os.path.join(CORPUS, "xnnpack")
        names = sorted(n for n in os.listdir(programs) if n.endswith(".bpte"))
        sums = json.loads(self.good("verify", "--local", "--json", programs))
        self.assertEqual(len(sums["files"]), len(names))
        self.assertEqual(sums["failed"], 0)
        self.assertGreater(sums["passed"], 0)
        # One of these has its input's channels last.
        n_small = sum(n.endswith(".bpte") for n in os.listdir(SMALL))
        self.assertIn(f"{n_small} passed, 0 failed, 0 skipped", self.good("verify", "--local", SMALL))
        good = next(f["path"] for f in sums["files"] if f["verdict"] == "passed")
        with open(good, "rb") as f:
            data = f.read()
        self.path("deep/er/good.bpte", data)
        self.path("deep/cut.bpte", data[:len(data) // 2])
        self.path("deep/other.txt", b"not looked at")
        status, out, _ = call("verify", "--local", self.path("deep"))
        self.assertEqual(status, 1)
        self.assertEqual(out.strip().split("\n")[-1], "1 passed, 1 failed, 0 skipped")
        self.assertRegex(out, r"FAIL  .*deep/cut.bpte: ")
        for name, data in ("note.bpte", b"no program at all"), ("short.bpte", b"hello"):
            status, out, _ = call("verify", "--local", self.path(name, data))
            self.assertEqual(status, 1, out)
            self.assertRegex(out, r"FAIL  .*%s: .*: another kind of file, or (another|one)" % name)

    def test_verify_skips_by_name(self):
        with open(MODEL, "rb") as f:
            data = f.read()
        # The same program exported for a backend of the same length that nobody has.
        other = data.replace(b"XnnpackBackend", b"XnnpockBackend")
        self.assertNotEqual(other, data)
        self.fails(r"Backend 'XnnpockBackend' is not available.*\. XnnpockBackend: no exporter", "infer", "--local",
                   self.path("other.pte", other), "-i", "x")
        self.assertIn("exported for XnnpockBackend", self.good("inspect", self.path("other.pte")))

    def test_strings(self):
        self.check_strings([], ["--local"])

    def test_data_files(self):
        self.assertIn("1 passed, 0 failed", self.good("verify", "--local", EXTERNAL))
        seen = json.loads(self.good("--json", "inspect", os.path.join(EXTERNAL, "mlp.bpte")))
        self.assertEqual(seen["data_files"], [os.path.join(EXTERNAL, PTD)])
        self.assertEqual(seen["data_bytes"], os.path.getsize(os.path.join(EXTERNAL, PTD)))
        self.external("alone")
        program, data = self.path("alone/mlp.bpte"), os.path.join(EXTERNAL, PTD)
        self.assertIn("no data file was given", self.good("inspect", program))
        self.fails("no data file was given", "infer", "--local", program)
        self.fails("nowhere.ptd: .*No such file", "inspect", "--data", self.path("nowhere.ptd"), program)
        for args in (["inspect"], ["verify", "--local"], ["infer", "--local"], ["bench", "--local", "-n", "2"]):
            self.good(*args, "--data", data, program)
        # What has the program's own name is asked first; what it lacks is looked for in the others.
        content = self.external("two")
        self.path("two/aaa.ptd", content.replace(b"0.weight", b"9.weight").replace(b"2.weight", b"0.weight"))
        self.path("two/mlp.ptd", content)
        self.assertIn("1 passed, 0 failed", self.good("verify", "--local", self.path("two")))
        self.path("two/mlp.ptd", content.replace(b"2.bias", b"3.bias"))
        self.assertIn("1 passed, 0 failed", self.good("verify", "--local", self.path("two")))
        for i in range(15):
            self.path(f"two/{i}.ptd", content)
        self.fails("a program can have 15 data files", "inspect", self.path("two/mlp.bpte"))
        # What needs none is not asked about those that happen to lie beside it.
        os.makedirs(self.path("none"), exist_ok=True)
        shutil.copy(os.path.join(TOP, "tests", "models", "small", "gelu_xnnpack.bpte"), self.path("none"))
        self.path("none/data.ptd", b"what is this?")
        self.assertIn("1 passed, 0 failed", self.good("verify", "--local", self.path("none")))
        self.fails("data.ptd: not a data file", "inspect", self.path("none/gelu_xnnpack.bpte"))

    def test_data_files_that_are_not_right(self):
        for i, (pattern, data) in enumerate(self.broken_data()):
            self.external(str(i))
            if data:
                self.path(f"{i}/data.ptd", data)
            self.fails(pattern, "infer", "--local", self.path(f"{i}/mlp.bpte"))
            status, out, _ = call("verify", "--local", self.path(str(i)))
            self.assertEqual(status, 1)
            self.assertRegex(out, pattern)

    def test_names_in_files_cannot_command_the_terminal(self):
        with open(MODEL, "rb") as f:
            data = f.read()
        hostile = self.path("hostile.pte", data.replace(b"XnnpackBackend", b"\x1b[2J\x1b[41m\xc2\x9bx\x7f\x07"))
        for args in (["inspect", hostile], ["infer", "--local", hostile, "-i", "x"]):
            _, out, err = call(*args)
            self.assertNotRegex(out + err, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertIsInstance(json.loads(self.good("inspect", "--json", hostile)), dict)

    def test_options_of_backends(self):
        config = self.path("inferd.conf")
        for overrides in "none", "-depthwise-fp32,-linear-qd8":
            with open(config, "w", encoding="utf-8") as f:
                f.write(f"[backend xnnpack]\noverrides = {overrides}\n")
            self.good("bench", "--local", "--requests", "1", "--config", config, MODEL)
        with open(config, "w", encoding="utf-8") as f:
            f.write("[backend xnnpack]\noverrides = -everything\n")
        self.fails("overrides is all, none or -NAME,-NAME..., not '-everything'", "bench", "--local", "--config", config, MODEL)
        self.fails("No such file", "bench", "--local", "--config", self.path("absent.conf"), MODEL)

    def test_profile(self):
        for command in ("infer", "bench"):
            self.assertIn("--profile FILE", self.good(command, "--help"))
        self.check_profiles([], ["--local"])

    def test_verify_nothing(self):
        os.mkdir(self.path("nothing"))
        self.fails("no .bpte file", "verify", "--local", self.path("nothing"))
        self.fails("No such file", "verify", "--local", self.path("nowhere"))

    def test_bench(self):
        result = json.loads(self.good("bench", "--local", "--json", "--requests", "5", "--clients", "2", MODEL))
        for key in ("p50_ms", "p99_ms", "min_ms", "max_ms", "throughput_per_s", "load_ms", "first_ms", "rss_kb"):
            self.assertGreater(result[key], 0, key)
        self.assertLessEqual(result["min_ms"], result["p50_ms"])
        self.assertLessEqual(result["p50_ms"], result["p99_ms"])
        self.assertLessEqual(result["p99_ms"], result["max_ms"])
        self.assertEqual(result["requests"], 10)
        self.assertIn("p50", self.good("bench", "--local", "--requests", "3", MODEL))

    def threads_of_bench(self, n_threads, *command, **options):
        """How many threads a request gets, and the warning."""
        r = subprocess.run([*command, INFERCTL, "bench", "--local", "--json", "--requests", "2", "--threads", str(n_threads),
                            MODEL], capture_output=True, text=True, check=True, timeout=120, **options)
        return json.loads(r.stdout)["threads"], r.stderr

    def test_threads_of_the_affinity(self):
        cores = os.sched_getaffinity(0)
        one = {"preexec_fn": lambda: os.sched_setaffinity(0, {min(cores)})}
        self.assertEqual(self.threads_of_bench(1), (1, ""))
        n, warning = self.threads_of_bench(3, **one)
        self.assertEqual(n, 1)
        self.assertRegex(warning, "--threads 3: computing on 1, because this process may use 1 core ")
        self.assertIn(self.threads_of_bench(len(cores) + 1)[0], range(1, len(cores) + 1))

    def test_threads_of_a_cpu_quota(self):
        """A folder in the place of /sys/fs/cgroup has the quota."""
        unshare = ["unshare", "--mount"] + ["--map-root-user"] * (os.geteuid() != 0)
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no mount namespace can be made here")
        cores = len(os.sched_getaffinity(0))
        os.makedirs(self.path("cgroup/cpu"))
        for text, n_cores in ("150000 100000", 1), ("50000 100000", 1), ("200000 100000", 2), ("max 100000", cores):
            quota, period = text.replace("max", "-1").split()
            for name, content in ("cpu.max", text), ("cpu/cpu.cfs_quota_us", quota), ("cpu/cpu.cfs_period_us", period):
                with open(self.path("cgroup/" + name), "w", encoding="ascii") as f:
                    f.write(content + "\n")
            n, _ = self.threads_of_bench(cores + 1, *unshare, "sh", "-c",
                                         'mount --bind "$0" /sys/fs/cgroup && exec "$@"', self.path("cgroup"))
            self.assertEqual(n, min(n_cores, cores), text)


class Daemon(Folder):
    n_bytes = "1G"

    def setUp(self):
        if not INFERD:
            self.skipTest("no daemon was given")
        Folder.setUp(self)
        self.models = self.path("models")
        os.makedirs(os.path.join(self.models, "net", "1"))
        shutil.copy(MODEL, os.path.join(self.models, "net", "1"))
        os.makedirs(os.path.join(self.models, "broken", "1"))
        with open(MODEL, "rb") as f:
            self.path("models/broken/1/cut.pte", f.read()[:9000])
        self.socket = self.path("inferd.sock")
        self.path("inferd.conf", f"[server]\nsocket = {self.socket}\nmanager_socket = {self.path('inferd-manager.sock')}\n"
                                 f"models = {self.models}\ncache =\n[limits]\nfds = 4096\nbytes = {self.n_bytes}\n"
                                 f"[user {os.getuid()}]\nweight = 3\nmethods = 7\npriority = batch\n".encode())
        self.log = open(self.path("log"), "w+")
        self.daemon = subprocess.Popen([INFERD, "--config", self.path("inferd.conf")], stderr=self.log,
                                       stdin=subprocess.DEVNULL)
        self.addCleanup(self.end)
        deadline = time.monotonic() + 120
        while call("--socket", self.socket, "models")[0] != 0:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                self.fail("inferd does not answer: " + self.log.read())

    def end(self):
        self.daemon.send_signal(signal.SIGTERM)
        status = self.daemon.wait(60)
        self.log.close()
        self.assertEqual(status, 0)

    def ask(self, *args):
        return self.good("--socket", self.socket, *args)

    def test_looking(self):
        index = {m["name"]: m for m in json.loads(self.ask("models", "--json"))["models"]}
        self.assertEqual(sorted(index), ["broken", "net"])
        self.assertIn("net", self.ask("models"))
        status = json.loads(self.ask("status", "--json"))
        self.assertEqual((status["programs"], status["clients"]), ([], []))
        self.assertIn("inferd", self.ask("status"))
        user, = status["users"]  # whose this command's own connection is
        self.assertEqual((user["uid"], user["name"], user["weight"], user["priority"]),
                         (os.getuid(), pwd.getpwuid(os.getuid()).pw_name, 3, "batch"))
        self.assertEqual(user["limits"], {
            "connections": {"used": 1, "limit": 256}, "methods": {"used": 0, "limit": 7}, "regions": {"used": 0, "limit": 4096},
            "bindings": {"used": 0, "limit": 8192}, "fds": {"used": 1, "limit": 4096}, "requests": {"used": 0, "limit": 1024},
            "opens": {"used": 0, "limit": 1024}, "bytes": {"used": 0, "limit": 1 << 30}})
        self.assertRegex(self.ask("status"), rf"{user['name']} +3 +batch +1/256 +0/7 .* 0 B/\d")

    def test_tables_line_up(self):
        """Whatever letters a name has: columns are counted, not bytes."""
        for name in ("modèle", "网络"):
            os.makedirs(os.path.join(self.models, name))
            shutil.copy(MODEL, os.path.join(self.models, name))
        status, out, err = call("--socket", self.socket, "models", env={"LC_ALL": "C.UTF-8"})
        self.assertEqual((status, err), (0, ""))
        columns = set()
        for line in out.splitlines()[:5]:
            before = line[:line.index("state" if line.startswith("model ") else "UNLOADED")]
            columns.add(sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in before))
        self.assertEqual(len(columns), 1, out)

    def test_failed_model(self):
        status, _, err = call("--socket", self.socket, "infer", "broken")
        self.assertEqual(status, 1)
        self.assertIn("cut.pte", err)
        self.assertIn("cut.pte", self.ask("why", "broken"))
        self.path("models/empty.pte", b"")
        self.fails("'empty' can't be loaded: empty.pte: the file is empty", "--socket", self.socket, "load", "empty")
        index = {m["name"]: m for m in json.loads(self.ask("models", "--json"))["models"]}
        self.assertEqual(index["broken"]["state"], "FAILED")
        self.fails("no model 'other'", "--socket", self.socket, "why", "other")
        self.fails("other", "--socket", self.socket, "infer", "other")

    def test_infer_is_the_same_as_local(self):
        np.save(self.path("in.npy"), np.linspace(-1, 1, 3 * 224 * 224, dtype="<f4").reshape(1, 3, 224, 224))
        self.good("infer", "--local", MODEL, "-i", self.path("in.npy"), "-o", self.path("local.npy"))
        for name, out in (("net", "a.npy"), (MODEL, "b.npy")):
            self.ask("infer", name, "-i", self.path("in.npy"), "-o", self.path(out))
            np.testing.assert_allclose(np.load(self.path(out)), np.load(self.path("local.npy")), 1e-5, 1e-5)

    def test_backend(self):
        """A client's order of backends: the first that the program is for."""
        gelu = os.path.join(SMALL, "gelu_xnnpack.bpte")
        np.save(self.path("in.npy"), np.zeros((1, 3, 224, 224), dtype="<f4"))
        self.ask("infer", "--backend", "xnnpack", "net", "-i", self.path("in.npy"))
        for name in ("net", gelu):
            result = json.loads(self.ask("bench", "--json", "--requests", "2", "--backend", "acme, xnnpack", name))
            self.assertEqual(result["backend"], "xnnpack")
        self.assertEqual(json.loads(self.ask("verify", "--json", "--backend", "npu xnnpack", gelu))["passed"], 1)
        for command in ("infer", "bench"):
            self.fails(r"No available backends from requested: \[acme, npu\]\. Available backends: \[.*portable\]",
                       "--socket", self.socket, command, "--backend", "acme, npu", "net")
            self.fails("no variant of model 'net' can run on 'portable': .*: it is for xnnpack",
                       "--socket", self.socket, command, "--backend", "portable", "net")
        status, out, _ = call("--socket", self.socket, "verify", "--backend", "portable", gelu)
        self.assertEqual(status, 1)
        self.assertIn("it is for xnnpack, not 'portable'", out)

    def test_models_names_the_file_that_serves(self):
        shutil.copy(MODEL, os.path.join(self.models, "net", "1", "z.pte"))
        name = os.path.basename(MODEL)
        self.assertRegex(self.ask("models"), rf"(?m)^net .* {re.escape(name)}, z\.pte$")
        self.ask("load", "net")
        self.assertRegex(self.ask("models"), rf"(?m)^net .* {re.escape(name)} \(others: z\.pte\)$")
        os.rename(os.path.join(self.models, "net", "1", "z.pte"), os.path.join(self.models, "net", "1", "a.pte"))
        self.ask("load", "net")
        self.assertRegex(self.ask("models"), rf"(?m)^net .* a\.pte \(others: {re.escape(name)}\)$")

    def test_numbers(self):
        self.check_numbers(["--socket", self.socket], [])

    def test_steps(self):
        self.check_steps(["--socket", self.socket], [])

    def test_strings(self):
        self.check_strings(["--socket", self.socket], [])

    def test_verify_is_the_same_as_local(self):
        local = json.loads(self.good("verify", "--local", "--json", CORPUS))
        remote = json.loads(self.ask("verify", "--json", CORPUS))
        verdicts = [{os.path.relpath(f["path"], CORPUS): f["verdict"] for f in r["files"]} for r in (local, remote)]
        self.assertEqual(verdicts[0], verdicts[1])
        self.assertGreater(remote["passed"], 20)
        self.assertEqual(json.loads(self.ask("status", "--json"))["programs"], [], "they went with their client")

    def test_data_files(self):
        for folder in ("models/mlp/3", "models/folder", "mine"):
            content = self.external(folder)
            self.path(os.path.join(folder, PTD), content)
        self.external("models")
        os.rename(self.path("models/mlp.bpte"), self.path("models/single.bpte"))
        self.path("models/single.ptd", content)
        zeros = ["-i", self.path("zeros.raw", bytes(3 * 32 * 4))]
        wanted = self.good("infer", "--local", self.path("mine/mlp.bpte"), "--json", *zeros)
        for name in ("mlp", "folder", "single", self.path("mine/mlp.bpte")):
            got = json.loads(self.ask("infer", name, "--json", *zeros))["outputs"]
            self.assertEqual(got, json.loads(wanted)["outputs"], name)
        self.assertIn("1 passed, 0 failed", self.ask("verify", self.path("mine")))
        programs = {p["name"]: p for p in json.loads(self.ask("models", "--json"))["models"]}
        self.assertGreater(programs["mlp"]["memory_bytes"], len(content), "its data counts")
        self.fails("--data is only for a file", "--socket", self.socket, "infer", "mlp", "--data", "x.ptd", *zeros,
            status=2)
        # The same program with other data is another model.
        self.path(os.path.join("mine", PTD), content.replace(b"0.weight", b"9.weight"))
        self.fails("nothing of that name", "--socket", self.socket, "infer", self.path("mine/mlp.bpte"), *zeros)

    def test_data_files_that_are_not_right(self):
        zeros = ["-i", self.path("zeros.raw", bytes(3 * 32 * 4))]
        for i, (pattern, data) in enumerate(self.broken_data()):
            self.external(f"models/m{i}")
            if data:
                self.path(f"models/m{i}/data.ptd", data)
            self.fails(pattern, "--socket", self.socket, "infer", f"m{i}", *zeros)
        content = self.external("models/many")
        for i in range(16):
            self.path(f"models/many/{i}.ptd", content)
        self.fails("more than 15 data files", "--socket", self.socket, "infer", "many", *zeros)

    def test_profile(self):
        self.check_profiles(["--socket", self.socket], [])
        picture = ["-i", self.path("in.raw", bytes(3 * 224 * 224 * 4))]
        self.ask("infer", "net", *picture, "--profile", self.path("net.etdump"))
        dump = Etdump(self.path("net.etdump"))
        self.assertGreater(len(dump.events), 50)
        queue, whole = dump.whole("inferd queue"), dump.whole("Method::execute")
        self.assertEqual(queue["end"], whole["begin"])
        call_, parts = dump.whole("DELEGATE_CALL"), [e for e in dump.events if e["part"]]
        self.assertGreater(sum("Convolution" in e["part"] or "depthwise" in e["part"] for e in parts), 40)
        self.assertEqual(parts[0]["begin"], call_["begin"])

    def test_verify_skips_by_name(self):
        skipped = self.path("skipped.bpte")
        with open(os.path.join(TOP, "tests", "models", "small", "gelu_xnnpack.bpte"), "rb") as f:
            data = f.read()
        for name, other in ((b"XnnpackBackend", b"XnnpockBackend"), (None, None)):
            if name is None:
                with open(os.path.join(EXTERNAL, "mlp.bpte"), "rb") as f:
                    data = f.read()
                shutil.copy(os.path.join(EXTERNAL, PTD), self.folder)
                name, other = b"aten::relu", b"aten::rolu"
            self.assertIn(name, data)
            self.path("skipped.bpte", data.replace(name, other))
            for args in (["--socket", self.socket, "verify"], ["verify", "--local"]):
                out = self.good(*args, skipped)
                self.assertTrue(out.endswith("\n0 passed, 0 failed, 1 skipped\n"), out)
                self.assertIn(other.decode(), out)

    def test_files_with_awkward_names(self):
        program = os.path.join(CORPUS, "xnnpack", sorted(os.listdir(os.path.join(CORPUS, "xnnpack")))[0])
        folder = os.path.join(self.folder, *["long" * 20] * 5)
        os.makedirs(folder)
        shutil.copy(program, os.path.join(folder, "long.bpte"))
        shutil.copy(program, os.path.join(self.folder.encode(), b"no\xffutf8.bpte"))
        self.assertTrue(self.ask("verify", folder).endswith("1 passed, 0 failed, 0 skipped\n"))
        r = subprocess.run([INFERCTL, "--socket", self.socket, "verify", os.path.join(self.folder.encode(), b"no\xffutf8.bpte")],
                           stdout=subprocess.PIPE, check=True)
        self.assertTrue(r.stdout.endswith(b"1 passed, 0 failed, 0 skipped\n"))

    def test_bench(self):
        for name in ("net", MODEL):
            result = json.loads(self.ask("bench", "--json", "--requests", "5", "--clients", "3", name))
            for key in ("p50_ms", "p99_ms", "min_ms", "max_ms", "throughput_per_s", "load_ms", "first_ms", "rss_kb"):
                self.assertGreater(result[key], 0, key)
            self.assertEqual(result["copied_tensors"], 0)

    def test_load_and_unload(self):
        self.ask("load", "net")
        index = {m["name"]: m for m in json.loads(self.ask("models", "--json"))["models"]}
        self.assertEqual(index["net"]["state"], "READY")
        self.assertGreater(index["net"]["memory_bytes"], 0)
        programs = json.loads(self.ask("status", "--json"))["programs"]
        self.assertEqual([p["cores"] for p in programs], [1])
        self.assertIn(programs[0]["cores_reason"], ("no run yet", "the daemon has a single core or worker"))
        self.assertRegex(self.ask("status"), r"net +1 +xnnpack +0 +0 +- ")  # no median of no request
        self.ask("unload", "net")
        self.assertEqual(json.loads(self.ask("status", "--json"))["programs"], [])
        self.fails("cut.pte", "--socket", self.socket, "load", "broken")
        self.fails("other", "--socket", self.socket, "load", "other")
        self.good("--socket", self.path("inferd-manager.sock"), "load", "net")
        self.fails("nothing to restart", "--socket", self.socket, "restart", "xnnpack")
        self.fails("no backend 'other'", "--socket", self.socket, "restart", "other")

    def test_four_applications_share_one_program(self):
        """What tools/demo shows: each picture as itself, one program, nothing copied."""
        if not CLASSIFY:
            self.skipTest("no classify was given")
        # Pictures under other names: the answer must come from the picture.
        shutil.copy(os.path.join(DATA, "chelsea.png"), self.path("coffee.png"))
        pictures = [(os.path.join(DATA, "chelsea.png"), {285, 281, 282}), (self.path("coffee.png"), {285, 281, 282}),
                    (os.path.join(DATA, "coffee.png"), {967, 968, 504}), (os.path.join(DATA, "rocket.jpg"), {657, 744, 812})]
        command = [CLASSIFY, "-w", "-n", "3", "-l", os.path.join(DATA, "labels.txt"), "net"]
        clients = [subprocess.Popen([*command, picture], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "INFERD_SOCKET": self.socket}) for picture, _ in pictures]
        try:
            for client, (picture, classes) in zip(clients, pictures):
                lines = client.stdout.read().strip().split("\n")  # to the end: it has answered, and stays connected
                self.assertEqual(len(lines), 6, lines)
                self.assertEqual(len(lines[0].split("requests")[1].split()), 4, "three times and their unit")
                self.assertIn(int(lines[1].split()[1]), classes, picture)
            status = json.loads(self.ask("status", "--json"))
            self.assertEqual([(p["name"], p["methods"], p["requests"]) for p in status["programs"]], [("net", 4, 12)])
            self.assertEqual([(c["name"], c["methods"], c["requests"]) for c in status["clients"]], [("classify", 1, 3)] * 4)
            self.assertTrue(all(c["region_bytes"] >= 3 * 224 * 224 * 4 for c in status["clients"]))
            self.assertEqual(status["copied_bytes"], 0)
            limits = status["users"][0]["limits"]
            self.assertEqual([limits[name]["used"] for name in ("connections", "methods", "regions", "bindings")], [5, 4, 4, 4])
            self.assertEqual(limits["bytes"]["used"], sum(c["region_bytes"] for c in status["clients"]))
        finally:
            for client in clients:
                client.stdin.close()
                client.stdout.close()
                self.assertEqual(client.wait(30), 0)


class DaemonWithLittleMemory(Folder):
    n_bytes = "4M"
    setUp, end, ask = Daemon.setUp, Daemon.end, Daemon.ask

    def test_a_profile_is_charged(self):
        args = ["infer", "net", "-i", self.path("in.raw", bytes(3 * 224 * 224 * 4))]
        self.ask(*args)
        self.fails("the limit 'bytes' of user", "--socket", self.socket, *args, "--profile", self.path("x.json"))
        self.assertFalse(os.path.exists(self.path("x.json")))
        self.ask(*args)


if __name__ == "__main__":
    INFERCTL = sys.argv.pop(1)
    if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
        INFERD = sys.argv.pop(1)
    if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
        CLASSIFY = sys.argv.pop(1)
    unittest.main(verbosity=2)
