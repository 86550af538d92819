#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""OpenVINO behind the daemon and a host process, where OpenVINO is.

    test_openvino.py INFERD INFERCTL HOST PLUGIN MODELS

INFERD_OPENVINO names the folder with libopenvino_c.so.* (`tools/test --with openvino` sees to it). The models'
own expected outputs must come out within 1e-4; payloads that were cut short or changed must be refused with the field's
name, and the daemon must go on serving. The daemon itself must stay small: the library's memory is the host's, once for
all clients. inferctl must say the same in its own process.
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HEADER = 48
FIELDS = ["custom data", "weights", "model"]


class Daemon:
    def __init__(self, folder, inferd, host, plugin, libraries):
        self.socket = os.path.join(folder, "inferd.sock")
        for name in ("models", "cache"):
            os.mkdir(os.path.join(folder, name))
        self.config = config = os.path.join(folder, "inferd.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write("[model half]\nopenvino.precision = bf16\nopenvino.threads = 1\n"
                    "[model odd]\nopenvino.precision = int8\n")
            f.write(f"[server]\nsocket = {self.socket}\nmanager_socket =\nmodels = {folder}/models\n"
                    f"cache = {folder}/cache\n[backend openvino]\npath = {plugin}\nhost = {host}\nfolder = {libraries}\n")
        self.log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([inferd, "--config", config], stderr=self.log, stdin=subprocess.DEVNULL)

    def wait_until_ready(self, inferctl):
        deadline = time.monotonic() + 60
        while subprocess.run([inferctl, "--socket", self.socket, "models"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                sys.exit("inferd does not answer: " + self.text())

    def text(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def resident_kb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def host_kb(self):
        """What the host processes hold, each shared page once."""
        total = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/children", encoding="ascii") as f:
                for child in f.read().split():
                    with open(f"/proc/{child}/smaps_rollup", encoding="ascii") as rollup:
                        total += int(re.search(r"\nPss:\s+(\d+)", rollup.read()).group(1))
        return total


def payload_at(data):
    """Where the payload begins: six u64 of which the first offset is their own size and each follows the last."""
    at = data.find(b"<?xml")
    while at >= 0:
        for start in range(max(0, at - 4096), at):
            if struct.unpack_from("<Q", data, start)[0] != HEADER:
                continue
            f = struct.unpack_from("<6Q", data, start)
            if f[2] == f[0] + f[1] and f[4] == f[2] + f[3] and f[0] + f[1] >= at - start:
                return start
        at = data.find(b"<?xml", at + 1)
    sys.exit("there is no payload in the file")


def broken_payloads(data):
    start = payload_at(data)
    fields = struct.unpack_from("<6Q", data, start)
    for i, name in enumerate(FIELDS):
        for value in (0, fields[2 * i] - 1, 2**63, 2**64 - 1):
            yield f"{name}: offset", start + 16 * i, value
        for value in (2**40, 2**64 - 1, 2**64 - fields[2 * i]):
            yield f"{name}: offset", start + 16 * i + 8, value
    yield "model: size 0", start + 40, 0


def local(inferctl, daemon, models, names):
    """In inferctl's own process, with the daemon's configuration: what is wrong."""
    wrong = []
    r = subprocess.run([inferctl, "verify", "--local", "--config", daemon.config, "--atol", "1e-4", "--rtol", "1e-4",
                        *(os.path.join(models, n) for n in names)], stdout=subprocess.PIPE, text=True, check=False)
    print("in this process:", r.stdout.strip())
    if r.returncode or f"{len(names)} passed" not in r.stdout:
        wrong.append("verify --local")
    for config, expected in ((["--config", daemon.config], True), (["--config", os.devnull], False)):
        r = subprocess.run([inferctl, "inspect", "--json", *config, os.path.join(models, names[0])],
                           stdout=subprocess.PIPE, text=True, check=False)
        method = json.loads(r.stdout)["methods"][0]
        delegate = method["delegates"][0]
        if delegate["available"] != expected or method["plan"]["runs_here"] != expected or delegate["target"] != "CPU":
            wrong.append(f"inspect with {config}: {delegate}")
    return wrong


def sharing(inferctl, daemon, models, folder):
    """What eight clients take beside one."""
    shutil.copy(os.path.join(models, "openvino_mv2.bpte"), os.path.join(folder, "models", "mv2.bpte"))
    sizes = []
    for clients in ("1", "8"):
        subprocess.run([inferctl, "--socket", daemon.socket, "bench", "--clients", clients, "--requests", "3", "mv2"],
                       stdout=subprocess.DEVNULL, check=True)
        sizes.append(daemon.host_kb())
    print(f"the host process: {sizes[0]} kB with one client, {sizes[1]} kB with eight")
    return [] if sizes[1] < 1.25 * sizes[0] else ["the host's memory with eight clients"]


def precision(inferctl, daemon, models, folder):
    """bf16 for one model and f32 for the same file under another name, loaded at the same time: what is wrong."""
    wrong = []
    for name in ("plain", "half", "odd"):
        shutil.copy(os.path.join(models, "openvino_mv2.bpte"), os.path.join(folder, "models", name + ".bpte"))
    picture = os.path.join(folder, "picture.raw")
    with open(picture, "wb") as f:
        f.write(struct.pack("<150528f", *(((i * 7919) % 255 - 127) / 64 for i in range(150528))))

    def run(name):
        out = os.path.join(folder, name + ".raw")
        r = subprocess.run([inferctl, "--socket", daemon.socket, "infer", name, "-i", picture, "-o", out],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if r.returncode:
            return r.stdout
        with open(out, "rb") as f:
            data = f.read()
        return struct.unpack(f"<{len(data) // 4}f", data)

    clients = [subprocess.Popen([inferctl, "--socket", daemon.socket, "bench", "--requests", "1000000", name],
                                stdout=subprocess.DEVNULL) for name in ("plain", "half")]
    try:
        plain, half, again, odd = run("plain"), run("half"), run("plain"), run("odd")
    finally:
        for client in clients:
            client.kill()
            client.wait()
    for name, result in (("plain", plain), ("half", half), ("again", again)):
        if isinstance(result, str):
            return [f"{name}: {result}"]
    difference = max(abs(x - y) for x, y in zip(plain, half)) / max(abs(x) for x in plain)
    with open("/proc/cpuinfo", encoding="ascii") as f:
        has_bf16 = "bf16" in f.read()
    print(f"bf16 differs from f32 by {difference:.2g}" + ("" if has_bf16 else "; this processor has no bf16"))
    if again != plain:
        wrong.append("f32 is not what it was")
    if has_bf16 and not 1e-4 < difference < 0.1:
        wrong.append(f"bf16 differs from f32 by {difference}")
    if not isinstance(odd, str) or "precision: 'int8' is none of f32, bf16, f16" not in odd:
        wrong.append(f"precision int8: {odd}")
    return wrong


def main():
    inferd, inferctl, host, plugin, models = sys.argv[1:]
    libraries = os.environ.get("INFERD_OPENVINO", "")
    if not libraries or not os.path.isdir(libraries):
        print("skipped: OpenVINO is not here; tools/test --with openvino installs it")
        sys.exit(77)
    if os.environ.get("INFERD_SANITIZED"):
        print("skipped: OpenVINO's TBB opens itself with RTLD_DEEPBIND, which ends a process under a sanitizer")
        sys.exit(77)
    names = [n for n in ("openvino_small.bpte", "openvino_mv2.bpte") if os.path.exists(os.path.join(models, n))]
    if not names:
        print(f"skipped: {models} is not there")
        sys.exit(77)
    failed = []
    with tempfile.TemporaryDirectory(prefix="inferd-openvino-") as folder:
        daemon = Daemon(folder, inferd, host, plugin, libraries)
        try:
            daemon.wait_until_ready(inferctl)
            before_kb = daemon.resident_kb()

            def verify(path):
                return subprocess.run([inferctl, "--socket", daemon.socket, "verify", "--atol", "1e-4", "--rtol", "1e-4",
                                       path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

            for name in names:
                r = verify(os.path.join(models, name))
                print(name, r.stdout.strip())
                if r.returncode or "1 passed" not in r.stdout:
                    failed.append(name)
            grown_kb = daemon.resident_kb() - before_kb
            print(f"the daemon grew by {grown_kb} kB")
            if grown_kb > 40000:
                failed.append("the daemon's memory")
            failed += local(inferctl, daemon, models, names)
            if len(names) == 2:
                failed += sharing(inferctl, daemon, models, folder)
                failed += precision(inferctl, daemon, models, folder)
            with open(os.path.join(models, "openvino_small.bpte"), "rb") as f:
                data = f.read()
            n = 0
            for what, at, value in broken_payloads(data):
                path = os.path.join(folder, "broken.bpte")
                with open(path, "wb") as f:
                    f.write(data[:at] + struct.pack("<Q", value) + data[at + 8:])
                r = verify(path)
                n += 1
                if not r.returncode or what not in r.stdout:
                    failed.append(f"{what} = {value}")
                    print(f"{what} = {value}: {r.stdout}")
            print(f"{n} broken headers")
            r = verify(os.path.join(models, names[0]))
            if r.returncode:
                failed.append("serving afterwards")
                print(r.stdout)
        finally:
            daemon.process.send_signal(signal.SIGTERM)
            status = daemon.process.wait(60)
        if status:
            failed.append(f"the daemon's exit status {status}")
        if failed:
            print(daemon.text())
    print("failed: " + ", ".join(failed) if failed else "all as it should be")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
