#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the examples in Python of clients/examples, on images and sounds of the tree and of ../shared.

    test_examples.py INFERD
"""
import array
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import daemon

sys.path.append(str(daemon.TOP / "tests" / "support"))
import pictures  # noqa: E402

EXAMPLES = daemon.TOP / "clients" / "examples"
DATA = daemon.TOP / "tests" / "data"
MINILM = daemon.SHARED / "minilm" / "xnnpack_qd8.bpte"
SILERO = daemon.SHARED / "silero_vad"
YOLO = daemon.SHARED / "yolo" / "yolo11n_xnnpack.bpte"
# some of BERT's vocabulary, at its places
WORDS = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, ".": 1012, "a": 1037, "the": 1996, "is": 2003, "on": 2006,
         "today": 2651, "market": 3006, "dog": 3899, "stock": 4518, "cat": 4937, "##s": 2015}


class Examples(daemon.Case):
    config = f"[user {os.getuid()}]\nweight = 4\n"
    models = {"efficientnet_lite0": daemon.EFFICIENTNET, "add_one": daemon.SMALL / "constants.pte",
              **({"minilm": MINILM} if MINILM.exists() else {}), **({"yolo11n": YOLO} if YOLO.exists() else {}),
              **({"silero_vad": SILERO / "xnnpack.pte"} if SILERO.exists() else {})}

    def example(self, name, *args, status=0, **options):
        r = subprocess.run([sys.executable, str(EXAMPLES / name), *map(str, args)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, check=False, timeout=120, **options)
        self.assertEqual(r.returncode, status, r.stderr.decode())
        return (r.stdout if status == 0 else r.stderr).decode()

    def test_label(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "chelsea.ppm"
            path.write_bytes(pictures.ppm(DATA / "chelsea.png"))
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

    def boxes_of(self, *args):
        return [line.split("\t") for line in self.example("detect.py", *args).splitlines()]

    @unittest.skipUnless(YOLO.exists(), "../shared is not there")
    def test_detect(self):
        """The weights are random, so the scores say nothing; the boxes are those of the output, and are drawn."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            photo, out = folder / "chelsea.ppm", folder / "boxes.ppm"
            photo.write_bytes(pictures.ppm(DATA / "chelsea.png"))
            (folder / "labels.txt").write_text("".join(f"thing {i}\n" for i in range(80)))
            self.assertEqual(self.boxes_of(photo, out), [])
            untouched = out.read_bytes()
            self.assertEqual(untouched, photo.read_bytes().replace(b"# a comment\n", b""))
            found = self.boxes_of("--threshold", 0, photo, out)
            self.assertGreater(len(found), 10)
            scores = [float(line[0]) for line in found]
            self.assertEqual(scores, sorted(scores, reverse=True))
            pixels, at, width, height = out.read_bytes(), len(b"P6\n451 300\n255\n"), 451, 300
            self.assertEqual(len(pixels), len(untouched))
            for _, label, *box in found:
                left, top, w, h = map(int, box)
                self.assertTrue(0 <= int(label) < 80 and left >= 0 and top >= 0 and left + w <= width and top + h <= height, box)
                for x, y in (left, top), (left + w - 1, top + h - 1):
                    self.assertEqual(pixels[at + 3 * (y * width + x):][:3], b"\xff\xff\xff")
            best = self.boxes_of("--threshold", found[4][0], "--labels", folder / "labels.txt", photo, out)
            self.assertTrue(best and all(line[1].startswith("thing ") for line in best))
            self.assertIn("no detector", self.example("detect.py", "--model", "efficientnet_lite0", photo, out, status=1))

    def test_together(self):
        """Each line has a model, its weight and its share of the run time. Which share is larger is not checked here:
        on a busy machine a client may not always have a request waiting (daemon/queue/test_scheduler.c checks weights)."""
        lines = [line.split("\t") for line in self.example(
            "together.py", "--seconds", 4, "efficientnet_lite0:3", "efficientnet_lite0:1").splitlines()]
        self.assertEqual([line[:2] for line in lines], [["efficientnet_lite0", "weight 3"], ["efficientnet_lite0", "weight 1"]])
        shares = [float(line[3]) for line in lines]
        self.assertAlmostEqual(sum(shares), 1, delta=0.02)
        self.assertGreater(min(shares), 0)
        models = [f"{name}:{i + 1}" for i, name in enumerate(self.models) if name != "add_one"]
        lines = self.example("together.py", "--seconds", 1, *models).splitlines()
        self.assertEqual(len(lines), len(models))
        self.assertIn("no model", self.example("together.py", "nothing:1", status=1).lower())

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
