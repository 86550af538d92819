#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the examples in Python of clients/examples, on images and sounds of the tree and of ../shared.

    test_examples.py INFERD
"""
import array
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import daemon

EXAMPLES = daemon.TOP / "clients" / "examples"
DATA = daemon.TOP / "tests" / "data"
MINILM = daemon.SHARED / "minilm" / "xnnpack_qd8.bpte"
SILERO = daemon.SHARED / "silero_vad"
# some of BERT's vocabulary, at its places
WORDS = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, ".": 1012, "a": 1037, "the": 1996, "is": 2003, "on": 2006,
         "today": 2651, "market": 3006, "dog": 3899, "stock": 4518, "cat": 4937, "##s": 2015}


def png_to_ppm(path):
    """A PNG of 8-bit RGB as raw PPM."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        n, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", data, at + 8)
            assert (depth, colours) == (8, 2)
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += n + 12
    raw, n, above, rows = zlib.decompress(packed), 3 * width, bytearray(3 * width), []
    for y in range(height):
        kind, row = raw[y * (n + 1)], bytearray(raw[y * (n + 1) + 1:(y + 1) * (n + 1)])
        for i in range(n):
            left, up, corner = (row[i - 3] if i >= 3 else 0), above[i], (above[i - 3] if i >= 3 else 0)
            nearest = min((left, up, corner), key=lambda p: abs(left + up - corner - p))
            row[i] = (row[i] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
        rows.append(row)
        above = row
    return b"P6\n# a comment\n%d %d\n255\n" % (width, height) + b"".join(rows)


class Examples(daemon.Case):
    models = {"efficientnet_lite0": daemon.EFFICIENTNET, "add_one": daemon.SMALL / "constants.pte",
              **({"minilm": MINILM} if MINILM.exists() else {}),
              **({"silero_vad": SILERO / "xnnpack.pte"} if SILERO.exists() else {})}

    def example(self, name, *args, status=0, **options):
        r = subprocess.run([sys.executable, str(EXAMPLES / name), *map(str, args)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, check=False, timeout=120, **options)
        self.assertEqual(r.returncode, status, r.stderr.decode())
        return (r.stdout if status == 0 else r.stderr).decode()

    def test_label(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "chelsea.ppm"
            path.write_bytes(png_to_ppm(DATA / "chelsea.png"))
            line = self.example("label.py", "--labels", DATA / "labels.txt", path)
            self.assertRegex(line.split("\t")[1], r"Egyptian cat|tabby")
            both = path.read_bytes() * 2
            lines = self.example("label.py", input=both).splitlines()
            self.assertEqual((len(lines), lines[0]), (2, lines[1]))
            self.assertRegex(lines[0], r"^-\t\d+\.\d\d 28[1-5]\t")
        self.assertIn("raw PPM", self.example("label.py", DATA / "chelsea.png", status=1))
        self.assertIn("does not take one square image", self.example("label.py", "--model", "add_one", status=1))
        self.assertIn("no model", self.example("label.py", "--model", "nothing", status=1).lower())
        self.assertIn("cannot connect", self.example("label.py", status=1, env={**os.environ, "INFERD_SOCKET": "/nowhere"}))

    @unittest.skipUnless(SILERO.exists(), "../shared is not there")
    def test_speech(self):
        wav = SILERO / "speech16k.wav"
        expected = array.array("f", (SILERO / "speech_prob.f32").read_bytes())
        lines = self.example("speech.py", "--probabilities", wav).splitlines()
        found = [float(line.split("\t")[1]) for line in lines]
        self.assertEqual(len(found[:len(expected)]), len(expected))
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, delta=1e-3)
        pieces = [tuple(map(float, line.split("\t"))) for line in self.example("speech.py", wav).splitlines()]
        self.assertTrue(pieces)
        self.assertTrue(all(begin < end for begin, end in pieces))
        with open(wav, "rb") as f:
            f.seek(44)  # the header
            self.assertEqual(self.example("speech.py", stdin=f), self.example("speech.py", wav))
        self.assertIn("speech: ", self.example("speech.py", DATA / "chelsea.png", status=1))

    @unittest.skipUnless(MINILM.exists(), "../shared is not there")
    def test_sentences(self):
        words = [f"[unused{i}]" for i in range(30522)]
        for word, i in WORDS.items():
            words[i] = word
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as vocabulary:
            vocabulary.write("\n".join(words) + "\n")
            vocabulary.flush()
            out = self.example("sentences.py", "--vocabulary", vocabulary.name, "The cat.",
                               input="the stock market today\nthe dogs\nTHE C\u00e2t.\n".encode())
        lines = [line.split("\t") for line in out.splitlines()]
        self.assertEqual([line[1] for line in lines], ["THE C\u00e2t.", "the dogs", "the stock market today"])
        self.assertAlmostEqual(float(lines[0][0]), 1, delta=0.01)


if __name__ == "__main__":
    daemon.main()
