#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The plugin as a file, loaded by GStreamer's tools: pipelines that leak nothing, and the example camera.sh.

    test_launch.py INFERD INFERCTL PLUGIN-FOLDER
"""
import array
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = TOP / "tests" / "data"
EXAMPLES = TOP / "clients" / "examples"
YOLO = TOP.parent / "shared" / "models" / "yolo" / "yolo11n_xnnpack.bpte"
SKIP = 77
CONF = """[input 0]
name = image
layout = NCHW
colour = RGB
scale = 0.0078125
offset = -0.9921875
[output 0]
name = scores
labels_file = labels.txt
"""
ALIVE = re.compile(r":: object-alive, .*|^.*TRACE .*object-alive, type-name=.*", re.M)
inferd = inferctl = plugins = None


def overlap(a, b):
    """Intersection over union of two boxes (left, top, right, bottom)."""
    def area(left, top, right, bottom):
        return max(right - left, 0) * max(bottom - top, 0)
    both = area(max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))
    return both / (area(*a) + area(*b) - both)


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="inferd-gst-"))
        self.addCleanup(shutil.rmtree, self.folder)
        models = self.folder / "models"
        (models / "efficientnet_lite0" / "1").mkdir(parents=True)
        (models / "add_one" / "1").mkdir(parents=True)
        if YOLO.exists():
            (models / "yolo11n" / "1").mkdir(parents=True)
            shutil.copy(YOLO, models / "yolo11n" / "1")
        shutil.copy(TOP / "tests" / "models" / "efficientnet_lite0_int8.pte", models / "efficientnet_lite0" / "1")
        shutil.copy(TOP / "tests" / "models" / "small" / "constants.pte", models / "add_one" / "1")
        shutil.copy(DATA / "labels.txt", models / "efficientnet_lite0")
        (models / "efficientnet_lite0" / "model.conf").write_text(CONF)
        self.socket = self.folder / "inferd.sock"
        (self.folder / "inferd.conf").write_text(
            f"[server]\nsocket = {self.socket}\nmanager_socket = {self.folder}/manager.sock\nmodels = {models}\ncache =\n")
        self.env = {**os.environ, "INFERD_SOCKET": str(self.socket), "GST_PLUGIN_PATH": plugins,
                    "GST_REGISTRY": str(self.folder / "registry"), "GST_DEBUG_NO_COLOR": "1"}
        self.start()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.daemon = subprocess.Popen([inferd, "--config", str(self.folder / "inferd.conf")], stderr=log)
        self.addCleanup(self.stop, self.daemon)
        deadline = time.monotonic() + 60
        while subprocess.run([inferctl, "--socket", str(self.socket), "models"], capture_output=True, check=False).returncode:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                self.fail((self.folder / "log").read_text())

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.terminate()
        process.wait(60)

    def launch(self, pipeline, fails=False):
        """Run @pipeline with the tracer of leaks; its output."""
        r = subprocess.run(["gst-launch-1.0", "-m", *pipeline.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, check=False, timeout=100, errors="replace",
                           env={**self.env, "GST_TRACERS": "leaks", "GST_DEBUG": "GST_TRACER:7"})
        self.assertEqual(r.returncode != 0, fails, r.stdout)
        self.assertEqual(ALIVE.findall(r.stdout), [], r.stdout)
        return r.stdout

    def test_the_tracer_finds_leaks(self):
        """Else the other tests show nothing: what lives while a pipeline runs is what it would call leaked at its end."""
        process = self.running("", GST_LEAKS_TRACER_SIG="1")
        process.send_signal(signal.SIGUSR1)
        for line in process.stdout:
            if ALIVE.search(line) and "InferdFilter" in line:
                return
        self.fail("the tracer says nothing")

    def test_images(self):
        out = self.launch("videotestsrc num-buffers=20 ! videoconvert ! videoscale ! inferdfilter model=efficientnet_lite0 "
                          "post-messages=true ! fakesink")
        self.assertEqual(len(re.findall(r"inferdfilter, model=.*label=", out)), 20)

    def test_sound(self):
        out = self.launch("audiotestsrc wave=silence num-buffers=2 ! audioconvert ! inferdfilter model=add_one rate=44100 "
                          "post-messages=true ! fakesink")
        self.assertEqual(len(re.findall(r"inferdfilter, model=.*output_0=\(float\)< 1, 1 >", out)), 1024)

    def yolo(self, tail):
        """Run YOLO11n on a photograph; the boxes that the messages tell, and the frame as the model saw it."""
        (self.folder / "labels.txt").write_text("".join(f"thing-{i}\n" for i in range(80)))
        out = self.launch(f"filesrc location={DATA}/chelsea.png ! pngdec ! videoconvertscale ! "
                          "video/x-raw,format=RGB,width=320,height=320 ! tee name=t ! queue ! inferdfilter model=yolo11n "
                          f"labels={self.folder}/labels.txt input-tensor-scale=255 score-threshold=0 post-messages=true ! {tail} "
                          f"t. ! queue ! filesink location={self.folder}/frame")
        found = re.search(r"boxes=\(int\)< (.*) >, confidences=\(float\)< (.*) >, labels=\(string\)< (.*) >;", out)
        boxes = [tuple(map(int, re.findall(r"\(int\)(\d+)", box))) for box in re.findall(r"<[^>]*>", found[1])]
        return list(zip(map(float, found[2].split(", ")), found[3].split(", "), boxes)), (self.folder / "frame").read_bytes()

    def expected_boxes(self, frame):
        """Those of what inferctl infers from the same frame."""
        (self.folder / "x").write_bytes(array.array("f", [p / 255 for c in range(3) for p in frame[c::3]]).tobytes())
        subprocess.run([inferctl, "--socket", str(self.socket), "infer", "yolo11n", "-i", str(self.folder / "x"), "-o",
                        str(self.folder / "y")], check=True, capture_output=True, timeout=100)
        y = array.array("f", (self.folder / "y").read_bytes())
        n, found, kept = len(y) // 84, [], []
        for place in range(n):
            scores = y[4 * n + place::n]
            x, middle, w, h = y[place:4 * n:n]
            box = (max(x - w / 2, 0), max(middle - h / 2, 0), min(x + w / 2, 320), min(middle + h / 2, 320))
            found.append((max(scores), scores.index(max(scores)), box))
        for score, label, box in sorted(found, key=lambda f: -f[0])[:1000]:
            if len(kept) < 100 and all(label != k[1] or overlap(box, k[2]) <= 0.45 for k in kept):
                kept.append((score, label, box))
        return kept

    @unittest.skipUnless(YOLO.exists(), "../shared is not there")
    def test_boxes(self):
        found, frame = self.yolo("fakesink")
        expected = self.expected_boxes(frame)
        self.assertGreater(len(found), 10)
        self.assertEqual(len(found), len(expected))
        for (score, label, box), (other, i, (left, top, right, bottom)) in zip(found, expected):
            self.assertAlmostEqual(score, other, delta=1e-6 + abs(other) / 1e4)
            self.assertEqual(label, f"thing-{i}")
            for a, b in zip((box[0], box[1], box[0] + box[2], box[1] + box[3]), (left, top, right, bottom)):
                self.assertLessEqual(abs(a - b), 1.001)

    @unittest.skipUnless(YOLO.exists() and shutil.which("gst-inspect-1.0"), "../shared is not there")
    def test_detect(self):
        """Boxes are drawn by Debian's element."""
        (self.folder / "labels.txt").write_text("".join(f"thing-{i}\n" for i in range(80)))
        for threshold, name, sink in (("0", "drawn", "videoconvert ! video/x-raw,format=RGB"),
                                      ("1", "plain", "videoconvert ! video/x-raw,format=RGB"), ("0", "png", "pngenc")):
            r = subprocess.run([EXAMPLES / "detect.sh", self.folder / "labels.txt",
                                *f"filesrc location={DATA}/chelsea.png ! pngdec -- {sink} ! filesink location={self.folder / name}".split()],
                               capture_output=True, text=True, check=False, timeout=60, env={**self.env, "THRESHOLD": threshold})
            self.assertEqual(r.returncode, 0, r.stderr)
            if threshold == "0":
                self.assertRegex(r.stdout, r"^thing-\d+, .*\t< \d+, \d+, \d+, \d+ >, ")
        self.assertEqual((self.folder / "png").read_bytes()[:4], b"\x89PNG")
        drawn, plain = (self.folder / "drawn").read_bytes(), (self.folder / "plain").read_bytes()
        self.assertEqual((len(drawn), len(plain)), (3 * 320 * 320, 3 * 320 * 320))
        n_white = sum(drawn[i:i + 3] == b"\xff\xff\xff" != plain[i:i + 3] for i in range(0, len(plain), 3))
        self.assertGreater(n_white, 1000)

    def test_two_models(self):
        self.launch("videotestsrc num-buffers=20 ! tee name=t ! queue ! videoconvertscale ! inferdfilter model=efficientnet_lite0 ! "
                    "fakesink t. ! queue ! videoconvertscale ! inferdfilter model=efficientnet_lite0 in-flight=4 ! fakesink")

    def test_errors(self):
        out = self.launch("videotestsrc ! videoconvertscale ! inferdfilter model=nothing ! fakesink", fails=True)
        self.assertIn("no model 'nothing'", out)
        out = self.launch("videotestsrc ! videoconvertscale ! inferdfilter model=efficientnet_lite0 socket=/nowhere ! fakesink",
                          fails=True)
        self.assertIn("cannot connect", out)

    def running(self, properties, **env):
        """A pipeline that does not end by itself and is in the middle of its frames."""
        process = subprocess.Popen(
            ["gst-launch-1.0", "-m", *("videotestsrc ! videoconvertscale ! inferdfilter model=efficientnet_lite0 post-messages=true "
                                       f"{properties} ! fakesink").split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env={**self.env, "GST_TRACERS": "leaks", "GST_DEBUG": "GST_TRACER:7", **env})
        self.addCleanup(self.stop, process)
        self.until_frame(process)
        return process

    def until_frame(self, process):
        for line in process.stdout:
            if "inferdfilter, model=" in line:
                return
        self.fail("no frame came")

    def test_daemon_is_killed(self):
        process = self.running("reconnect-ms=0")
        self.daemon.send_signal(signal.SIGKILL)
        out = process.communicate(timeout=100)[0]
        self.assertNotEqual(process.returncode, 0, out)
        self.assertIn("inferd: ", out)
        self.assertEqual(ALIVE.findall(out), [])

    def test_daemon_is_restarted(self):
        process = self.running("in-flight=4 reconnect-ms=60000")
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait(60)
        self.start()
        for _ in range(50):
            self.until_frame(process)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=100)[0]
        self.assertEqual(ALIVE.findall(out), [])
        self.assertNotIn("ERROR", out)

    def test_camera(self):
        script = TOP / "clients" / "examples" / "camera.sh"
        source = f"filesrc location={DATA}/chelsea.png ! pngdec"
        r = subprocess.run([script, "efficientnet_lite0", *source.split()], capture_output=True, text=True, check=False, timeout=100,
                           env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"^0\.000 s\t\d+\.\d\d\t(Egyptian cat|tabby|tiger cat)\n$")
        r = subprocess.run([script, "efficientnet_lite0", "videotestsrc", "num-buffers=3"], capture_output=True, text=True,
                           check=False, timeout=100, env=self.env)
        self.assertRegex(r.stdout, r"^(\d+\.\d{3} s\t-?\d+\.\d\d\t[^\t]+\n)+$")
        r = subprocess.run([script, "nothing", "videotestsrc"], capture_output=True, text=True, check=False, timeout=100,
                           env=self.env)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("no model 'nothing'", r.stderr)


if __name__ == "__main__":
    if not shutil.which("gst-launch-1.0"):
        print("SKIP: gst-launch-1.0 is not installed")
        sys.exit(SKIP)
    inferd, inferctl, plugins = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main()
