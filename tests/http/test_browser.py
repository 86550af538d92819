#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the page in Debian's Chromium.

    test_browser.py INFERD INFERD-HTTP INFERCTL

$INFERD_CHROMIUM is the folder that `tools/test --with clients` unpacks it into; without it the test is skipped. With
$INFERD_SCREENSHOTS, a folder, the images of docs/img are made again there.
"""
import base64
import json
import os
import pathlib
import sys
import threading
import unittest
import wave

CHROMIUM = os.environ.get("INFERD_CHROMIUM")
if not CHROMIUM or not pathlib.Path(CHROMIUM, "usr", "lib", "chromium", "chromium-headless-shell").exists():
    print("SKIP: Debian's Chromium is not installed; tools/test --with clients installs it")
    sys.exit(77)

import numpy as np  # noqa: E402

import browser  # noqa: E402
import gateway  # noqa: E402

DATA = gateway.TOP / "tests" / "data"
MODELS = gateway.TOP.parent / "shared" / "models"  # of developers; what needs one is skipped without it
SCREENSHOTS = os.environ.get("INFERD_SCREENSHOTS")
HOSTILE = "<img src=x onerror=alert(1)>"
HOSTILE_LABEL = "<b onclick=alert(1)>espresso</b>"
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
OPTIONAL = {"yolo11n": MODELS / "yolo" / "yolo11n_xnnpack.bpte", "silero_vad": MODELS / "silero_vad" / "xnnpack.pte",
            "minilm": MODELS / "minilm" / "xnnpack_qd8.bpte"}


def card(name):
    return f'article[aria-label="{name}"]'


class Chromium(gateway.Case):
    """A browser for each case, and a page that is open in it."""

    models = {"efficientnet_lite0": gateway.EFFICIENTNET, "add_one": gateway.PROGRAMS["add_one"], "decoder": gateway.PROGRAMS["decoder"],
              "dynamic": gateway.DYNAMIC, "left_out": gateway.PROGRAMS["left_out"],
              **{name: path for name, path in OPTIONAL.items() if path.exists()}}
    config = "page = yes\n"
    expected = ()  # complaints that a case causes

    @classmethod
    def prepare(cls):
        labels = (DATA / "labels.txt").read_text(encoding="utf-8").splitlines()
        labels[967] = HOSTILE_LABEL
        place = cls.folder / "models" / "efficientnet_lite0"
        (place / "labels.txt").write_text("\n".join(labels), encoding="utf-8")
        (place / "model.conf").write_text(CONF, encoding="utf-8")
        (place / "1" / "portable.pte").write_bytes(b"no program\n" * 20)  # another variant
        broken = cls.folder / "models" / "broken" / "1"
        broken.mkdir(parents=True)
        (broken / "x.pte").write_bytes(b"no program\n" * 20)

    def setUp(self):
        self.page = browser.Browser(CHROMIUM)
        self.addCleanup(self.page.close)
        self.page.open(f"http://127.0.0.1:{self.port}/")
        self.page.wait("document.querySelector('#state').textContent === 'live'")
        self.page.wait(f"document.querySelectorAll('article').length >= {len(self.models)}")

    def tearDown(self):
        complaints = [c for c in self.page.complaints if not any(e in c for e in self.expected)]
        self.assertEqual(complaints, [])
        base = f"http://127.0.0.1:{self.port}/"
        self.assertEqual([url for url in self.page.requests if not url.startswith((base, "data:", "about:"))], [])

    def try_it(self, name):
        """Open the panel of a model; the name in the script of what is behind it."""
        self.page.evaluate(f"document.querySelector({json.dumps(card(name))}).querySelector('button').click()")
        trial = f"view.models.cards.get({json.dumps(name)}).trial"
        self.page.wait(f"{trial}.inputs || {trial}.error.textContent")
        return trial

    def run_once(self, name, what="ones"):
        self.page.evaluate(f"""(() => {{
            const panel = document.querySelector({json.dumps(card(name) + ' .try')});
            [...panel.querySelectorAll('select')].at(-1).value = {json.dumps(what)};
            [...panel.querySelectorAll('button')].find((button) => button.textContent === 'Run once').click();
        }})()""")

    def keep(self, name):
        """A picture of what is visible now, for the documentation."""
        if SCREENSHOTS:
            self.page.evaluate("new Promise((end) => setTimeout(end, 600))")  # bars move for a while
            self.page.screenshot(f"{SCREENSHOTS}/{name}.png")

    def infer_with_inferctl(self, model, array):
        np.save(self.folder / "x.npy", array)
        self.run_inferctl("infer", model, "-i", f"{self.folder}/x.npy", "-o", f"{self.folder}/y.npy")
        return np.load(self.folder / "y.npy")

    def floats_of(self, expression):
        """An array of the page, or the bytes of one, as FP32."""
        text = self.page.evaluate(f"""(() => {{
            const array = {expression}, bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
            let text = '';
            for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
            return btoa(text);
        }})()""")
        return np.frombuffer(base64.b64decode(text), np.float32)


class Numbers(Chromium):
    """What the page shows without being asked."""

    def load(self, stop, failures):
        c, x, y = self.connect(), gateway.floats(1, 2), bytes(4 * 3 * 224 * 224)
        try:
            while not stop.wait(0.01):
                self.infer("add_one", {"inputs": [gateway.binary_input("input_0", [2], x)]}, x, connection=c)
                self.infer("efficientnet_lite0", {"inputs": [gateway.binary_input("image", [1, 3, 224, 224], y)]}, y, connection=c)
        except Exception as e:  # pylint: disable=broad-except
            failures.append(e)

    def test_numbers_are_live(self):
        stop, failures = threading.Event(), []
        threads = [threading.Thread(target=self.load, args=(stop, failures)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            number = "parseFloat(document.querySelector('.tile .number').textContent)"
            self.page.wait(f"{number} > 0")
            for name in "add_one", "efficientnet_lite0":
                self.page.wait(f"document.querySelector({json.dumps(card(name))}).innerText.includes('last minute: run')")
                self.page.wait(f"view.models.cards.get('{name}').latency.samples.length >= 3")
            shown = "view.models.cards.get('efficientnet_lite0')"
            first = self.page.evaluate(f"{shown}.facts.textContent")
            self.page.wait(f"{shown}.facts.textContent !== {json.dumps(first)}")
            # the histogram has what the samples say, at the place where the daemon's own median is
            bars = self.page.evaluate(f"{shown}.histogram.bars[0].map((bar) => Number(bar.getAttribute('height')))")
            stats, = self.json("GET", "/v2/models/efficientnet_lite0/stats")["model_stats"]
            run = stats["inference_stats"]["compute_infer"]
            column = self.page.evaluate(f"columnOf({run['ns'] / run['count']})")
            self.assertGreater(sum(bars[max(0, column - 2):column + 3]), 0, bars)
            self.page.wait("[...document.querySelectorAll('#queues tr')].some((row) => parseFloat(row.cells[1].textContent) > 0)")
            self.assertEqual(self.page.text("#queues tr td"), "cpu")
            if SCREENSHOTS:
                self.page.wait("view.rates.length >= 25")
            self.keep("page")
            self.page.size(1100, 900, dark=True)
            self.keep("page-dark")
            self.page.size(360, 1100)
            self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 360)
            self.keep("page-narrow")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])

    def test_variants(self):
        """Why a model serves or not, as `inferctl why` has it."""
        self.json("GET", "/v2/models/efficientnet_lite0")
        self.refuse("GET", "/v2/models/broken", status=503)
        self.page.wait(f"document.querySelector('{card('broken')} .badge').textContent === 'cannot be loaded'")
        self.assertIn("x.pte", self.page.text(f"{card('broken')} .problem"))
        self.page.wait(f"document.querySelector('{card('efficientnet_lite0')} .badge').textContent === 'ready'")
        self.page.evaluate(f"document.querySelector('{card('efficientnet_lite0')} details').open = true")
        text = self.page.text(f"{card('efficientnet_lite0')} details")
        for word in "serves clients who do not ask for a version", "xnnpack", "portable.pte", "efficientnet_lite0_int8.pte":
            self.assertIn(word, text)
        why = self.run_inferctl("why", "broken").decode().split("x.pte")[-1].split("'")[0]
        self.assertIn(why, self.page.text(f"{card('broken')} .problem"))

    def test_ten_thousand_requests(self):
        """The page does not grow with what it counts."""
        size = "document.querySelectorAll('*').length"
        self.json("GET", "/v2/models/add_one")
        self.page.wait(f"document.querySelector('{card('add_one')} .badge').textContent === 'ready'")
        before = self.page.evaluate(size)

        def work():
            c, x = self.connect(), gateway.floats(1, 2)
            for _ in range(2500):
                self.infer("add_one", {"inputs": [gateway.binary_input("input_0", [2], x)]}, x, connection=c)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.page.wait("view.last.status.requests >= 10000")
        self.assertEqual(self.page.evaluate(size), before)
        self.assertLessEqual(self.page.evaluate("view.models.cards.get('add_one').latency.samples.length"), 61)

    def test_hidden(self):
        """A hidden page asks for nothing; when it is seen again, it goes on."""
        self.page.evaluate("""(() => {
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
            document.dispatchEvent(new Event('visibilitychange'));
        })()""")
        self.page.wait("!view.isAsking && document.querySelector('#state').textContent === 'paused while hidden'")
        n = len(self.page.requests)
        self.page.evaluate("new Promise((end) => setTimeout(end, 2500))")
        self.assertEqual(len(self.page.requests), n)
        self.page.evaluate("(delete document.hidden, document.dispatchEvent(new Event('visibilitychange')))")
        self.page.wait("document.querySelector('#state').textContent === 'live'")
        self.page.evaluate("new Promise((end) => setTimeout(end, 2500))")
        asked = len(self.page.requests) - n
        self.assertTrue(2 <= asked <= 10, asked)  # two a second, and now and then a third

    def test_policy_holds(self):
        """What a hole in the page would let in does not run."""
        self.expected = ("ContentSecurityPolicy", "Content Security Policy", "TrustedHTML", "TrustedScript")
        ran = self.page.evaluate("""new Promise((end) => {
            const script = document.createElement('script');
            try { script.text = 'window.ran = 1'; } catch { /* trusted types */ }
            document.body.append(script);
            let refused = 0;
            try { document.body.insertAdjacentHTML('beforeend', '<img src=x>'); } catch { refused++; }
            fetch('http://127.0.0.1:9/').catch(() => end([window.ran, refused]));
        })""")
        self.assertEqual(ran, [None, 1])


class Hostile(Chromium):
    models = {HOSTILE: gateway.PROGRAMS["numbers"]}

    @classmethod
    def prepare(cls):
        pass

    def test_hostile_name(self):
        self.assertEqual(self.page.evaluate("document.querySelectorAll('img, script').length"), 1)  # its own script
        self.assertEqual(self.page.evaluate(f"view.models.cards.get({json.dumps(HOSTILE)}).node.querySelector('h3').firstChild.data"),
                         HOSTILE + " ")
        trial = self.try_it(HOSTILE)
        self.run_once(HOSTILE)
        self.page.wait(f"{trial}.result.innerText.includes('output_0')")
        self.assertEqual(self.page.evaluate("document.querySelectorAll('img, script').length"), 1)


class Restart(Chromium):
    expected = ("Failed to load resource",)  # while there is no daemon

    def test_daemon_is_started_again(self):
        """Also with numbers of the minute before, of a model that the new daemon has not loaded."""
        latency = "view.models.cards.get('add_one').latency"
        request = {"inputs": [gateway.json_input("input_0", [2], [1, 2])]}
        c = self.connect()
        while not self.page.evaluate(f"{latency}.samples.length"):
            self.json("POST", "/v2/models/add_one/infer", request, connection=c)
        c.close()
        type(self).daemon.end()
        try:
            self.page.wait("document.querySelector('#state').textContent === 'no daemon'")
            self.assertIn("no daemon listens", self.page.text("#trouble"))
            self.assertIn("goes on by itself", self.page.text("#trouble"))
        finally:
            type(self).daemon = self.start_daemon()
        self.page.wait("document.querySelector('#state').textContent === 'live'")
        self.page.wait("document.querySelector('#trouble').textContent.includes('started again')")
        trial = self.try_it("add_one")
        self.run_once("add_one")
        self.page.wait(f"{trial}.result.innerText.includes('output_0')")
        self.page.wait("view.last.status.requests === 1")

    def test_gateway_ends(self):
        """Of a gateway that is gone the page says so."""
        type(self).gateway.end()
        try:
            self.page.wait("document.querySelector('#state').textContent === 'no gateway'")
            conf = self.folder / "inferd-http.conf"
            conf.write_text(conf.read_text(encoding="utf-8").replace("127.0.0.1:0", f"127.0.0.1:{self.port}"), encoding="utf-8")
        finally:
            type(self).gateway = self.start_gateway()
        self.page.wait("document.querySelector('#state').textContent === 'live'")


class TryIt(Chromium):
    def test_picture(self):
        """A picture that is dropped has the label that inferctl gives, and the outputs to the bit."""
        trial = self.try_it("efficientnet_lite0")
        self.page.drop(f"{card('efficientnet_lite0')} .drop", DATA / "coffee.png", "image/png")
        self.page.wait(f"{trial}.lastOutputs")
        x = self.floats_of(f"{trial}.lastInput").reshape(1, 3, 224, 224)
        y = self.infer_with_inferctl("efficientnet_lite0", x)
        self.assertEqual(int(y.argmax()), 967)  # espresso
        self.page.wait(f"document.querySelector('{card('efficientnet_lite0')} .bars')")
        self.assertEqual(self.page.text(f"{card('efficientnet_lite0')} .bars .label"), HOSTILE_LABEL)
        classes = self.page.evaluate(f"{trial}.lastOutputs[0].classes")
        self.assertEqual([c["index"] for c in classes], [int(i) for i in (-y[0]).argsort(kind="stable")[:5]])
        self.assertEqual([np.float32(c["value"]) for c in classes], [np.float32(f"{y[0][c['index']]:.6f}") for c in classes])
        # pixels of the middle third, which a crop keeps, as model.conf wants them
        self.assertTrue((x >= -0.9921875).all() and (x <= 1).all() and x.std() > 0.1)
        self.assertTrue(np.array_equal((x + 0.9921875) * 128, np.round((x + 0.9921875) * 128)))
        self.page.evaluate(f"document.querySelector('{card('efficientnet_lite0')}').scrollIntoView()")

    def test_picture_for_the_documentation(self):
        if not SCREENSHOTS:
            self.skipTest("only for the images of docs/img")
        self.try_it("efficientnet_lite0")
        self.page.drop(f"{card('efficientnet_lite0')} .drop", DATA / "chelsea.png", "image/png")
        self.page.wait(f"document.querySelector('{card('efficientnet_lite0')} .bars')")
        self.page.size(1100, 690, scale=0.7)  # a photograph makes a large file
        self.page.evaluate(f"document.querySelector('{card('efficientnet_lite0')}').scrollIntoView()")
        self.keep("page-try")

    def test_order_of_a_tensor(self):
        """Each layout and order of channels, from an image of two different pixels."""
        made = self.page.evaluate("""(() => {
            const pixels = new Uint8ClampedArray([255, 128, 0, 255, 0, 64, 255, 255]), found = {};
            for (const [layout, shape] of [['NCHW', [1, 3, 1, 2]], ['NHWC', [1, 1, 2, 3]], ['CHW', [3, 1, 2]], ['HWC', [1, 2, 3]]])
                for (const isBgr of [false, true]) {
                    const isFirst = layout.includes('CHW');
                    const input = { tensor: { name: 'x', datatype: 'FP32', shape }, width: 2, height: 1, channels: 3, isFirst, isBgr };
                    found[layout + (isBgr ? ' BGR' : ' RGB')] = [...new Float32Array(imageTensor(pixels, input, [1, 2, 4], [0, 1, 0]).buffer)];
                }
            return found;
        })()""")
        rgb, bgr = [[255, 257, 0], [0, 129, 1020]], [[0, 257, 1020], [255, 129, 0]]
        for name, pixels in ("RGB", rgb), ("BGR", bgr):
            for layout in "NCHW", "CHW":
                self.assertEqual(made[f"{layout} {name}"], np.array(pixels).T.flatten().tolist())
            for layout in "NHWC", "HWC":
                self.assertEqual(made[f"{layout} {name}"], np.array(pixels).flatten().tolist())

    def test_numbers(self):
        """Datatypes of 16 bits, and integers at their bounds."""
        numbers = [0, 1, -2.5, 65504, 65520, 1e-7, 5.9604645e-08, 6.1e-5, 0.1, 3.14159, -1e9]
        text = json.dumps(numbers)
        half = self.page.evaluate(f"[...encode('FP16', {text})]")
        with np.errstate(over="ignore"):
            self.assertEqual(bytes(half), np.array(numbers, np.float16).tobytes())
            want = np.clip(np.array(numbers, np.float16).astype(np.float32), -1e5, 1e5).tolist()
        self.assertEqual(self.page.evaluate(f"[...decode('FP16', encode('FP16', {text})).map((x) => Math.min(1e5, Math.max(-1e5, x)))]"), want)
        self.assertEqual(self.page.evaluate("[...decode('BF16', encode('BF16', [1, -2.5, 0.1]))]"), [1, -2.5, 0.10009765625])
        self.assertEqual(self.page.evaluate("[...decode('INT8', encode('INT8', [-200, -1.6, 3, 200]))]"), [-128, -2, 3, 127])
        self.assertEqual(self.page.evaluate("[...decode('INT64', encode('INT64', [-3, 2 ** 40]))]"), [-3, 2 ** 40])

    def test_camera(self):
        """Chromium's own camera, which shows a moving disc; it is let go when the panel is closed."""
        trial = self.try_it("efficientnet_lite0")
        self.page.evaluate(f"{trial}.cameraButton.click()")
        self.page.wait(f"{trial}.lastOutputs")
        self.page.evaluate(f"window.first = {trial}.lastInput")
        self.page.wait(f"{trial}.lastInput.some((byte, i) => byte !== first[i])")
        self.page.evaluate(f"(window.track = {trial}.stream.getTracks()[0], {trial}.node.closest('article').querySelector('button').click())")
        self.page.wait("track.readyState === 'ended'")

    def test_any_model(self):
        """Numbers for each model that is none of the known kinds, with a state and with sizes that vary too."""
        for name, has in ("add_one", "2  2"), ("decoder", "output_0: FP32 [1, 3, 32]"), ("dynamic", "output_0: FP32 [1, 1, 1]"):
            trial = self.try_it(name)
            self.run_once(name)
            self.page.wait(f"{trial}.result.textContent.includes({json.dumps(has)}) || {trial}.error.textContent")
            self.assertEqual(self.page.evaluate(f"{trial}.error.textContent"), "", name)
            self.assertIn(has, self.page.evaluate(f"{trial}.result.textContent"))

    def test_refusal(self):
        """The daemon's sentence stands where the answer would."""
        self.expected = ("Failed to load resource",)
        trial = self.try_it("left_out")
        self.run_once("left_out")
        self.page.wait(f"{trial}.error.textContent.includes('the program was exported for one value')")

    def test_wrong_file(self):
        trial = self.try_it("efficientnet_lite0")
        self.page.drop(f"{card('efficientnet_lite0')} .drop", DATA / "labels.txt", "image/png")
        self.page.wait(f"{trial}.error.textContent.includes('no picture')")

    def test_boxes(self):
        """Decoding and suppression, from tensors in both orders."""
        rng = np.random.default_rng(5)
        boxes = np.concatenate([rng.uniform(20, 300, (2, 200)), rng.uniform(10, 90, (2, 200)), rng.uniform(0, 1, (6, 200)) ** 6]).astype(np.float32)
        want = suppress(boxes, 0.3)
        self.assertGreater(len(want), 5)
        for order, array in ((1, 10, 200), boxes), ((1, 200, 10), boxes.T):
            data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
            got = self.page.evaluate(f"""suppress(decodeBoxes(new Float32Array(Uint8Array.from(atob('{data}'), (c) => c.charCodeAt(0)).buffer),
                {json.dumps(order)}, 0.3).boxes).map((b) => [b.x, b.y, b.width, b.height, b.score, b.index])""")
            np.testing.assert_allclose(got, want, atol=1e-3)

    @unittest.skipUnless(OPTIONAL["yolo11n"].exists(), "needs YOLO11n")
    def test_detector(self):
        """The boxes of the page are those of inferctl's output. Its weights are random, so their scores are small."""
        trial = self.try_it("yolo11n")
        self.page.evaluate(f"{trial}.threshold.value = 0")
        self.page.drop(f"{card('yolo11n')} .drop", DATA / "astronaut.png", "image/png")
        self.page.wait(f"{trial}.lastBoxes")
        x = self.floats_of(f"{trial}.lastInput").reshape(1, 3, 320, 320)
        self.assertTrue((x >= 0).all() and (x <= 1).all() and x.std() > 0.1)
        y = self.infer_with_inferctl("yolo11n", x)
        self.assertEqual(self.floats_of(f"{trial}.lastOutputs[0].data").tobytes(), y.tobytes())
        want = suppress(y[0], 0)
        got = self.page.evaluate(f"{trial}.lastBoxes.map((b) => [b.x, b.y, b.width, b.height, b.score, b.index])")
        self.assertEqual(len(got), len(want))
        scale = 320 / 512  # the picture is square
        np.testing.assert_allclose(np.array([b[:4] for b in got]) * scale, np.array([b[:4] for b in want]), atol=0.02)

    @unittest.skipUnless(OPTIONAL["silero_vad"].exists(), "needs silero_vad")
    def test_sound(self):
        """One sequence over all frames of a sound, with the answers that its exporter recorded."""
        trial = self.try_it("silero_vad")
        self.page.drop(f"{card('silero_vad')} .drop", MODELS / "silero_vad" / "speech16k.wav", "audio/wav")
        self.page.wait(f"{trial}.result.innerText.includes('frames')")
        self.page.wait(f"{trial}.result.querySelector('.values').textContent")
        got = np.array(self.page.evaluate(f"{trial}.lastValues"), np.float32)
        want = np.fromfile(MODELS / "silero_vad" / "speech_prob.f32", np.float32)
        np.testing.assert_allclose(got[:len(want)], want, atol=2e-3)  # the browser's samples are not quite those of the file
        self.assertIn("0.5 or more from 0.5", self.page.text(f"{card('silero_vad')} .values"))
        self.page.size(1100, 560)
        self.page.evaluate(f"document.querySelector('{card('silero_vad')}').scrollIntoView()")
        self.keep("page-sound")

    @unittest.skipUnless(OPTIONAL["silero_vad"].exists(), "needs silero_vad")
    def test_sound_of_another_rate(self):
        """48 kHz and two channels become 16 kHz and one."""
        path = self.folder / "tone.wav"
        with wave.open(str(path), "wb") as sound:
            sound.setparams((2, 2, 48000, 0, "NONE", ""))
            t = np.arange(48000) / 48000
            tone = (np.sin(2 * np.pi * 440 * t) * 16000).astype("<i2")
            sound.writeframes(np.stack([tone, tone // 2], axis=1).tobytes())
        data = base64.b64encode(path.read_bytes()).decode()
        got = self.page.evaluate(f"""(async () => {{
            const bytes = Uint8Array.from(atob('{data}'), (c) => c.charCodeAt(0));
            return [...await decodeSound(new Blob([bytes]))];
        }})()""")
        self.assertAlmostEqual(len(got), 16000, delta=2)
        spectrum = np.abs(np.fft.rfft(got[:16000]))
        self.assertEqual(int(spectrum.argmax()), 440)
        self.assertAlmostEqual(max(got), 0.75 * 16000 / 32768, delta=0.02)

    def test_words(self):
        """The tokens of sentences.py of the examples."""
        vocabulary = self.folder / "vocab.txt"
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "sleep", "##s", "##ing", "caf", "##e", ".", "!", "un", "##believ", "##able", "猫"]
        vocabulary.write_text("\n".join(tokens) + "\n", encoding="utf-8")
        sentences = ["A cat sleeps.", "Café!", "unbelievable SLEEPING cats", "xyz", "", "猫 cat", "a" * 300, "don't"]
        sys.path.insert(0, str(gateway.TOP / "clients" / "examples"))
        sys.modules["inferd"] = sys  # the examples import it, and WordPiece does not need it
        import sentences as example  # pylint: disable=import-outside-toplevel
        words = example.WordPiece(vocabulary)
        for sentence in sentences:
            ids, mask = words(sentence, 16)
            if sentence == "a" * 300:  # the page takes it as no word at once, as BERT's own tokenizer
                ids, mask = [2, 1, 3] + [0] * 13, [1] * 3 + [0] * 13
            got = self.page.evaluate(f"(new WordPiece({json.dumps(vocabulary.read_text(encoding='utf-8'))})).encode({json.dumps(sentence)}, 16)")
            self.assertEqual(got, ids[:sum(mask)], sentence)

    @unittest.skipUnless(OPTIONAL["minilm"].exists(), "needs MiniLM")
    def test_sentence(self):
        """The embeddings of sentences, with a vocabulary that the page's user brings."""
        trial = self.try_it("minilm")
        vocabulary = self.folder / "minilm.txt"
        tokens = [f"[unused{i}]" for i in range(3000)]
        tokens[0], tokens[100], tokens[101], tokens[102] = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
        for i, word in enumerate(("a", "cat", "sleeps", "kitten", "dozes", ".")):
            tokens[2000 + i] = word
        vocabulary.write_text("\n".join(tokens), encoding="utf-8")
        self.page.evaluate(f"{trial}.node.querySelector('input[type=file]').id = 'vocabulary'")
        self.page.choose("#vocabulary", vocabulary)
        self.page.wait(f"{trial}.words")
        self.page.evaluate(f"""(() => {{
            {trial}.node.querySelector('textarea').value = 'A cat sleeps.\\nA cat sleeps .\\nA kitten dozes.';
            {trial}.node.querySelector('button.main').click();
        }})()""")
        self.page.wait(f"{trial}.result.querySelectorAll('.value').length === 2")
        got = self.page.evaluate(f"[...{trial}.result.querySelectorAll('.value')].map((node) => Number(node.textContent))")
        rows = np.zeros((3, 128), np.int64)
        for row, ids in zip(rows, ([101, 2000, 2001, 2002, 2005, 102], [101, 2000, 2001, 2002, 2005, 102], [101, 2000, 2003, 2004, 2005, 102])):
            row[:len(ids)] = ids
        vectors = []
        for row in rows:
            np.save(self.folder / "ids.npy", row[None])
            np.save(self.folder / "mask.npy", (row[None] != 0).astype(np.int64))
            self.run_inferctl("infer", "minilm", "-i", f"{self.folder}/ids.npy", "-i", f"{self.folder}/mask.npy", "-o", f"{self.folder}/y.npy")
            y = np.load(self.folder / "y.npy")[0]
            vectors.append(y / np.linalg.norm(y))
        np.testing.assert_allclose(got, [vectors[0] @ vectors[1], vectors[0] @ vectors[2]], atol=6e-4)
        self.assertEqual(got[0], 1)


def suppress(data, threshold, limit=0.45, most=100):
    """Boxes as the page should find them: (x, y, width, height, score, class) by score, from [4 + classes, boxes]."""
    found = []
    for column in data.T.astype(np.float64):
        index = int(column[4:].argmax())
        if column[4 + index] >= threshold:
            found.append((column[0] - column[2] / 2, column[1] - column[3] / 2, column[2], column[3], column[4 + index], index))
    kept = []

    def overlap(a, b):
        w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
        h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
        both = max(0, w) * max(0, h)
        return both / (a[2] * a[3] + b[2] * b[3] - both or 1)
    for box in sorted(found, key=lambda b: -b[4])[:3000]:
        if len(kept) < most and not any(k[5] == box[5] and overlap(k, box) > limit for k in kept):
            kept.append(box)
    return kept


class Crowd(Chromium):
    """A repository with many models."""

    models = {f"model_{i:04}": gateway.PROGRAMS["add_one"] for i in range(400)}

    @classmethod
    def prepare(cls):
        pass

    def setUp(self):
        self.page = browser.Browser(CHROMIUM)
        self.addCleanup(self.page.close)
        self.page.open(f"http://127.0.0.1:{self.port}/")

    def test_filter(self):
        self.page.wait("document.querySelectorAll('article').length === 100")
        self.assertIn("300 more", self.page.text("#more"))
        self.page.evaluate("(byId('filter').value = 'L_0399', byId('filter').dispatchEvent(new Event('input')))")
        self.page.wait("document.querySelectorAll('article').length === 1")
        self.assertIn("model_0399", self.page.text("article"))


if __name__ == "__main__":
    gateway.main()
