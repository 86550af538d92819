# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Chromium without a screen, driven by its DevTools protocol over two pipes."""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

TIMEOUT_S = 120
OPTIONS = ["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
           "--disable-background-networking", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
           "--force-color-profile=srgb"]


class Browser:
    """One browser with one page. What the page complains of, its console, exceptions and violations of its policy, is in
    `complaints`."""

    def __init__(self, folder):
        """@folder: where Debian's packages of Chromium were unpacked."""
        self.profile = tempfile.mkdtemp(prefix="inferd-browser-")
        self.complaints, self.requests, self.n, self.rest, self.session = [], [], 0, b"", None
        libraries = {str(p.parent) for p in pathlib.Path(folder, "usr", "lib").rglob("*.so*") if "chromium" not in p.parts[-2]}
        env = {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(libraries)), "HOME": self.profile}
        (there, self.to), (self.come, back) = os.pipe(), os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (there, back)]
        os.close(there)
        os.close(back)
        self.log = open(f"{self.profile}/log", "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen([f"{folder}/usr/lib/chromium/chromium-headless-shell", *OPTIONS,
                                         f"--user-data-dir={self.profile}", "about:blank"],
                                        env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(3, 4, *ends),
                                        preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)))
        for fd in ends:
            os.close(fd)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Audits", "Network":
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(30)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.come)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def note(self, message):
        method, said = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(said["entry"]))
        elif method == "Audits.issueAdded":
            self.complaints.append(json.dumps(said["issue"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def receive(self):
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self.rest:
            if not select.select([self.come], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self.come, 1 << 20)
            if not data:
                self.log.seek(0)
                raise AssertionError(f"the browser has ended: {self.log.read()[-2000:]}")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def open(self, url, width=1100, height=900, dark=False):
        self.size(width, height, dark)
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def size(self, width, height, dark=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def evaluate(self, expression):
        """The value of an expression in the page, or of the promise that it is."""
        r = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in r:
            raise AssertionError(f"{expression[:200]}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def wait(self, condition):
        """Until the condition holds in the page."""
        held = self.evaluate(f"""new Promise((end) => {{
            const before = Date.now() + {500 * TIMEOUT_S};
            const look = () => ({condition}) ? end(true) : Date.now() > before ? end(false) : setTimeout(look, 20);
            look();
        }})""")
        if not held:
            raise AssertionError(f"in vain waited for {condition}; the page says: {self.text()[:3000]}")

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def drop(self, selector, path, kind):
        """Drop a file on an element, as its user would."""
        data = base64.b64encode(pathlib.Path(path).read_bytes()).decode()
        self.evaluate(f"""(() => {{
            const bytes = Uint8Array.from(atob({json.dumps(data)}), (c) => c.charCodeAt(0)), transfer = new DataTransfer();
            transfer.items.add(new File([bytes], {json.dumps(pathlib.Path(path).name)}, {{ type: {json.dumps(kind)} }}));
            const place = document.querySelector({json.dumps(selector)});
            for (const type of ['dragenter', 'dragover', 'drop'])
                place.dispatchEvent(new DragEvent(type, {{ bubbles: true, cancelable: true, dataTransfer: transfer }}));
        }})()""")

    def choose(self, selector, path):
        """Choose a file with a field for files."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def screenshot(self, path, whole=False):
        """Of the visible part, or of the whole page."""
        r = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(r["data"]))
