#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure every performance claim of the README again.

    tools/debian13 tests/bench/bench.py --build build [--pairs N] [--seconds S] [--only NAME,...]
                          [--peer RUNNER [--peer-cache PROGRAM] | --build-peer RUNNER.cpp] [--json]

Each row compares two programs that run in turn (A, B, A, B, ...), at least nine times; it shows the medians of both and
of the ratios of the pairs. Absolute times are those of the machine named above the table. The peer is the original
ExecuTorch runtime (tests/bench/peer.sh builds its runner); without it its rows are skipped, with a note. The status is 1
if a bar is not met.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import batching
import gstreamer
import http_client
import opencl
import python_client
import scale
import versus

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
MODELS = TOP / "tests" / "models"
SHARED = TOP.parent / "shared" / "models"


class Setup:
    """Where things are, and how often to measure."""

    def __init__(self, options):
        self.build = pathlib.Path(options.build).resolve()
        self.pairs = options.pairs
        self.requests = options.requests
        self.batches = options.batches and pathlib.Path(options.batches).resolve()
        self.peer, self.peer_cache = options.peer, options.peer_cache
        self.inferctl = self.build / "clients" / "inferctl" / "inferctl"
        self.inferd = self.build / "daemon" / "inferd"
        self.pingpong = self.build / "tests" / "bench" / "pingpong"
        self.make_noop = self.build / "tests" / "bench" / "make_noop"
        self.load = self.build / "tests" / "bench" / "load"
        self.http_load = self.build / "tests" / "bench" / "http_load"
        self.kills = self.build / "tests" / "bench" / "kills"
        self.deadlines = self.build / "tests" / "bench" / "deadlines"
        self.seconds = options.seconds
        self.cores = len(os.sched_getaffinity(0))
        for program in (self.inferctl, self.inferd, self.pingpong, self.load, self.kills, self.deadlines, self.make_noop):
            if not program.exists():
                sys.exit(f"bench: {program} is missing: build first (ninja -C {options.build})")

    def json_of(self, *command, core=None):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, preexec_fn=on_core(core))
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def ping(self, *cores):
        return self.json_of(self.pingpong, "3000", *cores)["p50_us"]

    def local(self, model, **options):
        return self.json_of(self.inferctl, "bench", "--local", "--json", *flags(options), model)

    def remote(self, daemon, name, core=None, **options):
        return self.json_of(self.inferctl, "--socket", daemon.socket, "bench", "--json", *flags(options), name, core=core)


def on_core(core):
    """For a process to be started: keep it on that core; None: where the kernel likes."""
    return None if core is None else lambda: os.sched_setaffinity(0, {core})


def flags(options):
    out = []
    for name, value in options.items():
        out += [f"--{name}", str(value)]
    return out


class Daemon:
    """A private inferd over a folder of models."""

    def __init__(self, process, folder):
        self.process, self.folder = process, folder
        self.socket = folder / "inferd.sock"
        self.pid = process.pid

    def threads(self):
        """{thread: (user s, system s, voluntary switches, involuntary ones)}; the loop's has the process's number."""
        out = {}
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            times = (task / "stat").read_text().rsplit(")", 1)[1].split()
            switches = [int(line.split()[1]) for line in (task / "status").read_text().splitlines()
                        if "ctxt_switches" in line]
            tick = os.sysconf("SC_CLK_TCK")
            out[int(task.name)] = (int(times[11]) / tick, int(times[12]) / tick, *switches)
        return out


@contextlib.contextmanager
def daemon(setup, models, config="", core=None, log_level="warning"):
    with tempfile.TemporaryDirectory(prefix="inferd-bench-") as folder:
        folder = pathlib.Path(folder)
        for name, source in models.items():
            place = folder / "models" / name / "1"
            place.mkdir(parents=True)
            shutil.copy(source, place / f"{name}.pte")
        (folder / "inferd.conf").write_text(
            f"[server]\nmodels = {folder}/models\nsocket = {folder}/inferd.sock\ncache = {folder}\n"
            f"manager_socket = {folder}/manager.sock\nlog_level = {log_level}\n{config}")
        process = subprocess.Popen([str(setup.inferd), "--config", str(folder / "inferd.conf")], preexec_fn=on_core(core),
                                   stderr=subprocess.PIPE if log_level == "debug" else None)
        try:
            wait_for_socket(process, folder / "inferd.sock")
            yield Daemon(process, folder)
        finally:
            process.terminate()
            process.wait()


class Load:
    """What tests/bench/load measured, while its clients are still there."""

    def __init__(self, setup, d, seconds, model, *clients):
        self.process = subprocess.Popen([str(setup.load), str(d.socket), str(seconds), model, *clients],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            sys.exit("bench: load failed")
        self.result = None

    def wait(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("bench: load failed")
        self.result = json.loads(line)
        return self.result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def load(setup, d, seconds, model, *clients):
    with Load(setup, d, seconds, model, *clients) as run:
        return run.wait()


def pss(pid):
    for line in open(f"/proc/{pid}/smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def program_of(path, folder):
    """The program inside a bundled one (`.bpte`: the third field of its root table), as a file of its own."""
    data = path.read_bytes()
    if data[4:6] != b"BP":
        return path
    u32 = lambda at: int.from_bytes(data[at:at + 4], "little")
    table = u32(0)
    vtable = table - int.from_bytes(data[table:table + 4], "little", signed=True)
    field = table + int.from_bytes(data[vtable + 8:vtable + 10], "little")
    vector = field + u32(field)
    out = pathlib.Path(folder) / f"{path.parent.name}_{path.stem}.pte"
    out.write_bytes(data[vector + 4:vector + 4 + u32(vector)])
    return out


def wait_for_socket(process, path):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"bench: inferd ended with status {process.returncode}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            with contextlib.suppress(OSError):
                probe.connect(str(path))
                return
        os.sched_yield()
    sys.exit("bench: inferd does not listen")


def median(values):
    return statistics.median(values)


def efficientnet(setup):
    """p50 of EfficientNet-Lite0 int8 in-process and through the daemon, one core for the run in both."""
    model = MODELS / "efficientnet_lite0_int8.pte"
    rows = []
    with daemon(setup, {"efficientnet_lite0": model}, "workers = 1\n") as d:
        setup.remote(d, "efficientnet_lite0", requests=20)
        for _ in range(setup.pairs):
            a = setup.local(model, threads=1, requests=setup.requests)["p50_ms"]
            b = setup.remote(d, "efficientnet_lite0", requests=setup.requests)["p50_ms"]
            rows.append((a, b))
    a, b = median(r[0] for r in rows), median(r[1] for r in rows)
    added = median(r[1] - r[0] for r in rows)
    return [{"what": "EfficientNet-Lite0 int8 on one core, p50 in-process", "value": f"{a:.2f} ms"},
            {"what": "the same through the daemon", "value": f"{b:.2f} ms"},
            {"what": "difference (median of pairs)", "value": f"{added * 1000:.0f} µs"}]


def overhead(setup):
    """What a blocking request adds to the same Method run in-process, as a multiple of one socket round trip."""
    rows, placed = [], {}
    copied = 0
    with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder, contextlib.ExitStack() as stack:
        models = {}
        for name, n_bytes in {"noop_1k": 1 << 10, "noop_1m": 1 << 20, "noop_64m": 64 << 20}.items():
            models[name] = pathlib.Path(folder) / f"{name}.pte"
            subprocess.run([str(setup.make_noop), str(n_bytes), str(models[name])], check=True)
        # Who shares a core with whom is the kernel's choice, and it decides: so each placement by itself, too.
        cores = sorted(os.sched_getaffinity(0))[:2]
        places = {"on one core": cores[0]} | ({"on two cores": cores[1]} if len(cores) > 1 else {})
        free = stack.enter_context(daemon(setup, models))
        pinned = stack.enter_context(daemon(setup, models, core=cores[0]))

        def added(d, name, core=None):
            nonlocal copied
            there = setup.local(models[name], threads=1, requests=3000)["p50_ms"]
            here = setup.remote(d, name, core=core, requests=3000)
            copied += here["copied_tensors"]
            return (here["p50_ms"] - there) * 1000

        for _ in range(setup.pairs):
            ping, here = setup.ping(), added(free, "noop_1k")
            rows.append((ping, here, here / ping))
            for place, core in places.items():
                ping = setup.ping(core, cores[0])
                here = {name: added(pinned, name, core) for name in models}
                placed.setdefault(place, []).append(
                    (ping, here["noop_1k"], here["noop_1k"] / ping, here["noop_64m"] / here["noop_1k"] - 1))
    out = [{"what": "socket ping-pong between two processes, p50", "value": f"{median(r[0] for r in rows):.1f} µs"},
           {"what": "a blocking request adds (no-op model, 1 kB), p50",
            "value": f"{median(r[1] for r in rows):.1f} µs"},
           row("as a multiple of the ping-pong", median(r[2] for r in rows), "≤", 2.0)]
    for place, found in placed.items():
        out += [{"what": f"both {place}: ping-pong, and what a request adds",
                 "value": f"{median(r[0] for r in found):.1f} µs, {median(r[1] for r in found):.1f} µs"},
                row(f"both {place}: as a multiple", median(r[2] for r in found), "≤", 2.0),
                row(f"both {place}: growth from 1 kB to 64 MB of tensors, of itself", median(r[3] for r in found),
                    "≤", 0.05)]
    return out + [row("tensors copied", copied, "≤", 0)]


def isolation(setup):
    """A run of a plug-in that computes next to nothing, in a process of its own, beside one socket round trip."""
    check = setup.build / "delegates" / "check" / "inferd-delegate-check"
    plugin = setup.build / "tests" / "plugins" / "sync.so"
    make = setup.build / "tests" / "bench" / "make_delegated"
    if not (check.exists() and plugin.exists() and make.exists()):
        return [{"what": "plug-in in its own process", "value": f"left out: {plugin} is missing"}]
    host_path = setup.build / "delegates" / "plugin" / "inferd-delegate-host"
    environment = dict(os.environ, INFERD_DELEGATE_HOST=str(host_path))
    cores = sorted(os.sched_getaffinity(0))
    # who shares a core with whom decides, for the ping-pong as for a run: so each placement by itself, too
    places = {"": (None, None), "both on one core": (cores[0], cores[0]), "both on two cores": (cores[0], cores[-1])}
    rows = {}
    with tempfile.TemporaryDirectory(prefix="inferd-plugin-") as folder:
        model = pathlib.Path(folder) / "scale.pte"
        subprocess.run([str(make), "scale", str(model)], check=True)
        for _ in range(setup.pairs):
            for place, (ours, other) in places.items():
                if place == "both on two cores" and ours == other:
                    continue
                host = pathlib.Path(folder) / f"host-{other}"
                if other is not None and not host.exists():
                    host.write_text(f"#!/bin/sh\nexec taskset -c {other} {environment['INFERD_DELEGATE_HOST']}\n")
                    host.chmod(0o755)
                there = environment if other is None else dict(environment, INFERD_DELEGATE_HOST=str(host))
                ping = setup.ping(*(() if other is None else (ours, other)))
                done = subprocess.run([str(check), "-n", "3000", str(plugin), str(model)], env=there,
                                      capture_output=True, text=True, preexec_fn=on_core(ours))
                found = re.search(r"p50 ([0-9.]+) us; ([0-9]+) bytes copied", done.stdout)
                if done.returncode or not found:
                    sys.exit(f"bench: {check} failed:\n{done.stdout}{done.stderr}")
                rows.setdefault(place, []).append((ping, float(found.group(1)), int(found.group(2))))
    out = []
    for place, found in rows.items():
        where = f", {place}" if place else ""
        out += [{"what": f"a run of a no-op plug-in in its own process{where}, p50 (and the ping-pong)",
                 "value": f"{median(r[1] for r in found):.1f} µs ({median(r[0] for r in found):.1f} µs)"},
                row(f"as a multiple of the ping-pong{where}", median(r[1] / r[0] for r in found), "≤", 2, " ×")]
    return out + [row("tensor bytes copied for it", max(r[2] for found in rows.values() for r in found), "≤", 0)]


def programs(setup):
    """A no-op program that a client brings, in its user's process, beside the same one as a model of the repository."""
    cores = sorted(os.sched_getaffinity(0))
    places = {"where the kernel puts the processes": None, "all on one core": cores[0]}
    rows = {}
    copied = 0
    with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder, contextlib.ExitStack() as stack:
        model = pathlib.Path(folder) / "noop.pte"
        subprocess.run([str(setup.make_noop), str(1 << 10), str(model)], check=True)
        daemons = {place: stack.enter_context(daemon(setup, {"noop": model}, core=core)) for place, core in places.items()}
        for _ in range(setup.pairs):
            there = setup.local(model, threads=1, requests=3000)
            for place, core in places.items():
                ping = setup.json_of(setup.pingpong, "3000", *([] if core is None else [core, core]))
                options = {"core": core, "requests": 3000, "warm-up": 300}
                found = [setup.remote(daemons[place], name, **options) for name in ("noop", model)]
                copied += sum(f["copied_tensors"] for f in found)
                rows.setdefault(place, []).append(
                    [(ping[f"{key}_us"], *((f[f"{key}_ms"] - there[f"{key}_ms"]) * 1000 for f in found)) for key in ("p50", "min")])
    out = []
    for place, found in rows.items():
        for index, which in enumerate(("p50", "least")):
            ping, repository, own = (median(r[index][i] for r in found) for i in range(3))
            out.append({"what": f"{place}, {which}: ping-pong; what a request of a repository's model adds; of a client's program",
                        "value": f"{ping:.1f} µs; {repository:.1f} µs; {own:.1f} µs"})
        out += [{"what": f"{place}: a repository's model, as a multiple of the ping-pong",
                 "value": f"{median(r[0][1] / r[0][0] for r in found):.2f} ×"},
                row(f"{place}: a client's program, likewise", median(r[0][2] / r[0][0] for r in found), "≤", 2, " ×")]
    return out + [row("tensors copied", copied, "≤", 0)]


def openvino_payload(path):
    """What the exporter made, out of a program: six u64, each part behind the one before, the first behind these."""
    data = path.read_bytes()
    at = data.find(b"<?xml")
    while at >= 0:
        for start in range(max(0, at - 4096), at):
            f = struct.unpack_from("<6Q", data, start)
            if f[0] == 48 and f[2] == f[0] + f[1] and f[4] == f[2] + f[3] and f[2] >= at - start:
                return data[start:start + f[4] + f[5]]
        at = data.find(b"<?xml", at + 1)
    sys.exit(f"bench: no OpenVINO payload in {path}")


def children(pid):
    return [int(n) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
            for n in (task / "children").read_text().split()]


def openvino(setup):
    """OpenVINO behind daemon and host process beside the same payload on OpenVINO's own C interface."""
    libraries = os.environ.get("INFERD_OPENVINO", str(TOP / "build-test" / "openvino" / "openvino" / "libs"))
    direct = setup.build / "tests" / "bench" / "openvino_direct"
    models = {name: SHARED / "npu" / f"openvino_{name}.bpte" for name in ("mv2", "small")}
    if not os.path.isdir(libraries) or not all(m.exists() for m in models.values()):
        return [{"what": "OpenVINO behind the daemon", "value": f"left out: no {libraries}, or no models"}]
    config = (f"[backend openvino]\npath = {setup.build}/delegates/openvino/openvino.so\nfolder = {libraries}\n"
              f"host = {setup.build}/delegates/plugin/inferd-delegate-host\n")
    out = []
    with tempfile.TemporaryDirectory(prefix="inferd-openvino-") as folder:
        for name, bundle in models.items():
            payload = pathlib.Path(folder) / name
            payload.write_bytes(openvino_payload(bundle))
            n = setup.requests if name == "mv2" else 50 * setup.requests
            with daemon(setup, {name: program_of(bundle, folder)}, config) as d:
                setup.remote(d, name, requests=n)
                rows = []
                for _ in range(setup.pairs):
                    a = setup.json_of(direct, libraries, payload, 0, n)["p50_ms"]
                    b = setup.remote(d, name, requests=n)["p50_ms"]
                    rows.append((a, b))
            what = {"mv2": "mobilenet_v2 fp32 on OpenVINO", "small": "a network of 40 kB on OpenVINO"}[name]
            out.append({"what": f"{what}, called directly, p50", "value": f"{median(r[0] for r in rows):.3f} ms"})
            if name == "mv2":
                out.append(row("the same through daemon and host process, over that", median(b / a for a, b in rows), "≤",
                               1.1))
            else:
                out.append({"what": "the same through daemon and host process adds",
                            "value": f"{median(b - a for a, b in rows) * 1000:.0f} µs"})
        totals = []
        for n in (1, 8):
            with daemon(setup, {"mv2": program_of(models["mv2"], folder)}, config) as d, \
                    Load(setup, d, 1, "mv2", str(n)) as run:
                run.wait()
                totals.append(sum(pss(pid) for pid in children(d.pid)))
        out += [{"what": "memory of OpenVINO's host process with one client (Pss)", "value": f"{totals[0] / 2**20:.0f} MiB"},
                row("with 8 clients over with one", totals[1] / totals[0], "≤", 1.25)]
    return out


def row(what, value, relation, bar, unit=""):
    met = value <= bar if relation == "≤" else value >= bar
    return {"what": what, "value": f"{value:.3g}{unit}", "bar": f"{relation} {bar:.3g}{unit}", "met": met}


def peer_crowd(setup, model, threads, n=8):
    """(requests/s, p99 ms, memory) of n processes of the original. Starting and loading is taken off the time."""
    def run(runs, sample):
        begin, n_bytes = time.monotonic(), 0
        processes = [subprocess.Popen([str(setup.peer), str(threads), str(runs), "1", str(model)],
                                      stdout=subprocess.PIPE, text=True) for _ in range(n)]
        while sample and all(p.poll() is None for p in processes):
            with contextlib.suppress(OSError):
                n_bytes = max(n_bytes, sum(pss(p.pid) for p in processes))
            with contextlib.suppress(subprocess.TimeoutExpired):
                processes[0].wait(0.2)
        results = [json.loads(p.communicate()[0]) for p in processes]
        return time.monotonic() - begin, results, n_bytes

    runs = max(50, int(setup.seconds * 200 * setup.cores / n))
    short, _, _ = run(1, False)
    long, results, n_bytes = run(runs, True)
    return n * (runs - 1) / max(long - short, 1e-9), median(r["p99_ms"] for r in results), n_bytes


def crowd(setup):
    """Eight clients of EfficientNet-Lite0: against one thread of our own in-process, and eight original processes."""
    out = []
    with tempfile.TemporaryDirectory(prefix="inferd-crowd-") as folder:
        models = {"int8": MODELS / "efficientnet_lite0_int8.pte"}
        if (SHARED / "efficientnet_lite0" / "xnnpack.bpte").exists():
            models["fp32"] = program_of(SHARED / "efficientnet_lite0" / "xnnpack.bpte", folder)
        for name, model in models.items():
            rows = []
            with daemon(setup, {"net": model}) as d:
                load(setup, d, 1, "net", "8")
                for _ in range(setup.pairs):
                    one_ms = setup.local(model, threads=1, requests=setup.requests)["p50_ms"]
                    with Load(setup, d, setup.seconds, "net", "8") as run:
                        ours = run.wait()
                        n_bytes = pss(d.pid)
                    rate = ours["requests_per_s"]
                    peers = [peer_crowd(setup, model, t) for t in (1, 2)] if setup.peer else []
                    rows.append((rate, rate * one_ms / 1000 / setup.cores, ours["p99_us"] / 1000, n_bytes, peers))
            what = f"EfficientNet-Lite0 {name}, 8 clients"
            out += [{"what": f"{what}: requests/s", "value": f"{median(r[0] for r in rows):.1f}"},
                    row(f"{what}: throughput over cores ÷ one thread's p50 in-process", median(r[1] for r in rows),
                        "≥", 0.95)]
            if not setup.peer:
                out.append({"what": f"{what}: against the original", "value": "left out: neither --peer nor --build-peer"})
                continue

            def against(ours, theirs, best):
                return median(r[ours] / best(p[theirs] for p in r[4]) for r in rows)
            out += [row(f"{what}: throughput over that of 8 original processes", against(0, 0, max), "≥", 1.0),
                    row(f"{what}: p99 over theirs", against(2, 1, min), "≤", 0.6),
                    row(f"{what}: memory of the daemon over theirs (Pss)", against(3, 2, min), "≤", 0.25)]
    return out


def interactive(setup):
    """One interactive client beside seven that saturate the machine with batch requests."""
    model = MODELS / "efficientnet_lite0_int8.pte"
    rows = []
    with daemon(setup, {"net": model}) as d:
        load(setup, d, 1, "net", "8")
        for _ in range(setup.pairs):
            alone = setup.local(model, threads=1, requests=setup.requests)
            both = load(setup, d, setup.seconds, "net", "1:interactive", "7:batch:0:2")["clients"][0]["p99_us"] / 1000
            # a delegate runs its whole payload in one go: the longest segment is one run
            rows.append((alone["p50_ms"], both, both / (2 * alone["p50_ms"] + alone["p99_ms"])))
    return [{"what": "one interactive client: p50 alone, one thread", "value": f"{median(r[0] for r in rows):.2f} ms"},
            {"what": "its p99 beside 7 saturating batch clients", "value": f"{median(r[1] for r in rows):.2f} ms"},
            row("over 2 × its p50 alone + one longest segment", median(r[2] for r in rows), "≤", 1.0)]


def weights(setup):
    """Two saturating clients of one user, weights 3 : 1."""
    depth = 2 * setup.cores
    with daemon(setup, {"net": MODELS / "efficientnet_lite0_int8.pte"}, f"[user {os.getuid()}]\nweight = 3\n") as d:
        load(setup, d, 1, "net", "2")
        shares = []
        for _ in range(max(1, setup.pairs // 3)):
            a, b = load(setup, d, max(setup.seconds, 10), "net", f"1:batch:3:{depth}", f"1:batch:1:{depth}")["clients"]
            shares.append(a["run_ms"] / b["run_ms"])
    return [row("two saturating clients, weights 3 : 1: off by", abs(median(shares) / 3 - 1), "≤", 0.05)]


def memory(setup):
    """What eight Methods take beside one, after all cores were at work."""
    out = []
    with tempfile.TemporaryDirectory(prefix="inferd-memory-") as folder:
        models = {"EfficientNet-Lite0 int8": MODELS / "efficientnet_lite0_int8.pte"}
        for name, path in (("EfficientNet-Lite0 fp32", SHARED / "efficientnet_lite0" / "xnnpack.bpte"),
                           ("MiniLM-L6", SHARED / "minilm" / "xnnpack_qd8.bpte")):
            if path.exists():
                models[name] = program_of(path, folder)
        for name, model in models.items():
            ones, ratios = [], []
            for _ in range(setup.pairs):
                totals = []
                for n in (1, 8):
                    with daemon(setup, {"net": model}) as d, Load(setup, d, 1, "net", str(n)) as run:
                        run.wait()
                        totals.append(pss(d.pid))
                ones.append(totals[0])
                ratios.append(totals[1] / totals[0])
            out += [{"what": f"{name}: memory of the daemon with one Method (Pss)",
                     "value": f"{median(ones) / 2**20:.1f} MiB"},
                    row(f"{name}: with 8 over with one", median(ratios), "≤", 1.25)]
    return out


def noop(setup):
    """Requests per second of a model that computes nothing, and whose time they take."""
    rates, n = [], 0
    with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder:
        model = pathlib.Path(folder) / "noop.pte"
        subprocess.run([str(setup.make_noop), "1024", str(model)], check=True)
        with daemon(setup, {"noop": model}) as d:
            load(setup, d, 0.5, "noop", "8")
            before = d.threads()
            for _ in range(setup.pairs):
                result = load(setup, d, setup.seconds, "noop", "8")
                rates.append(result["requests_per_s"])
                n += sum(c["requests"] for c in result["clients"])
            after = d.threads()
    out = [{"what": "no-op model, 8 clients: requests/s", "value": f"{median(rates):.0f}"}]
    for kind, is_loop in (("the loop", True), ("the workers", False)):
        user, system, slept, preempted = (
            sum(after[t][i] - before.get(t, (0, 0, 0, 0))[i] for t in after if (t == d.pid) == is_loop) / n
            for i in range(4))
        out.append({"what": f"of each, {kind}", "value": f"{user * 1e6:.1f} µs user, {system * 1e6:.1f} µs system, "
                    f"sleeps {slept:.2f} times, preempted {preempted:.2f}"})
    return out


def idle(setup):
    """What a client costs that has a Method and a binding and does nothing: the daemon's own memory, without regions."""
    n = 1000
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 16384), limit[1]))
    config = "[limits]\nconnections = 2000\nmethods = 2000\nregions = 8000\nfds = 16000\nbytes = 64G\nbindings = 4000\n"

    def private():
        for line in open(f"/proc/{d.pid}/status"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return 0

    with daemon(setup, {"net": MODELS / "efficientnet_lite0_int8.pte"}, config) as d:
        load(setup, d, 1, "net", "8")
        before = private()
        with Load(setup, d, 0, "net", f"{n}:idle:0:0") as run:
            run.wait()
            each = (private() - before) / n
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    return [row(f"each of {n} idle clients of EfficientNet-Lite0", each / 1024, "≤", 64, " kB")]


def resting(setup):
    """Processor time of the daemon for requests with pauses between them: threads that look around in vain would show."""
    n = 20

    def spent():
        return sum(int((task / "schedstat").read_text().split()[0])
                   for task in pathlib.Path(f"/proc/{d.pid}/task").iterdir()) / 1e6

    def each(pause_s, count):
        before = spent()
        for _ in range(count):
            setup.remote(d, "net", requests=n // count, **{"warm-up": 1})
            time.sleep(pause_s)
        return (spent() - before) / (n + count)

    with daemon(setup, {"net": MODELS / "efficientnet_lite0_int8.pte"}) as d:
        setup.remote(d, "net", requests=60)
        pairs = [(each(0, 1), each(0.05, n)) for _ in range(setup.pairs)]
    return [{"what": "processor time of a request (EfficientNet-Lite0 int8), in a row / with a pause after each",
             "value": f"{median(a for a, _ in pairs):.1f} ms / {median(b for _, b in pairs):.1f} ms"}]


def killed(setup):
    """How long after SIGKILL of a client with requests queued and running anything of it is left, by the daemon's own log."""
    n = 100
    with daemon(setup, {"net": MODELS / "efficientnet_lite0_int8.pte"}, log_level="debug") as d:
        command = [str(setup.kills), str(d.socket), "net", str(n)]
        probe = subprocess.Popen(command, stdin=d.process.stderr, stdout=subprocess.PIPE, text=True)
        d.process.stderr.close()
        busy = subprocess.Popen([str(setup.load), str(d.socket), "600", "net", f"{2 * setup.cores}:batch"],
                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        out = probe.communicate()[0]
        busy.kill()
        busy.wait()
        d.process.terminate()
        if probe.returncode:
            sys.exit("bench: kills failed")
    times = json.loads(out)
    what = f"after kill -9, slowest of {n} under load ({times['n_running']} while a request ran)"
    if not times["is_realtime"]:
        what += ", measured without real-time priority"
    return [row(f"{what}: queued requests and idle resources free", times["idle_max_ms"], "≤", 10, " ms"),
            row("the rest, after the end of its running segment", times["rest_max_ms"], "≤", 10, " ms"),
            {"what": "the same, medians", "value": f"{times['idle_p50_ms']:.2f} ms, {times['rest_p50_ms']:.2f} ms"}]


def stops(setup):
    """How long the process of a client's program that does not stop lives on after a deadline, a cancellation, the client's end."""
    test = setup.build / "tests" / "e2e" / "test_e2e_stubborn"
    if not test.exists():
        return [{"what": "programs that do not stop", "value": f"left out: no {test}"}]
    times = {}
    for _ in range(setup.pairs):
        done = subprocess.run([str(test), str(setup.inferd)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = re.findall(r"the process was ended (-?[0-9.]+) ms after the (.+)", done.stdout)
        if done.returncode or not found:
            sys.exit(f"bench: {test} failed:\n{done.stdout}")
        for ms, what in found:
            times.setdefault(what, []).append(float(ms))
    return [row(f"a program that does not stop is ended after the {what}, slowest of {len(ms)} (median {median(ms):.1f} ms)",
                max(ms), "≤", 20, " ms") for what, ms in times.items()]


def start_until_ready(setup, d):
    """Start the daemon of @d again, in the same folder; the time at which it says that it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        path = d.folder / "notify"
        path.unlink(missing_ok=True)
        notify.bind(str(path))
        notify.settimeout(60)
        d.process = subprocess.Popen([str(setup.inferd), "--config", str(d.folder / "inferd.conf")],
                                     env={**os.environ, "NOTIFY_SOCKET": str(path)})
        while b"READY=1" not in notify.recv(4096):
            pass
        return time.monotonic()


def n_requests(setup, d):
    """The requests that the daemon of @d has had."""
    r = subprocess.run([str(setup.inferctl), "--json", "--socket", str(d.socket), "status"], stdout=subprocess.PIPE, check=True)
    return json.loads(r.stdout)["requests"]


def pause(setup, d, kills):
    """The longest pause of eight clients in a restart of the daemon, beside the time from its stop to READY, in ms."""
    before = n_requests(setup, d)
    with subprocess.Popen([str(setup.inferctl), "--socket", str(d.socket), "bench", "--json", "--clients", "8", "--requests",
                           str(setup.requests * 3), "--reconnect", "60000", "efficientnet_lite0"],
                          stdout=subprocess.PIPE, text=True) as clients:
        while n_requests(setup, d) < before + 80:  # they are at it
            pass
        stopped = time.monotonic()
        d.process.kill() if kills else d.process.terminate()
        d.process.wait()
        ready = start_until_ready(setup, d)
        result = json.loads(clients.communicate()[0])
    return result["max_ms"] - result["p50_ms"], (ready - stopped) * 1e3


def reconnect(setup):
    """What a restart costs the clients that survive it, and what surviving costs a request."""
    out = []
    model = MODELS / "efficientnet_lite0_int8.pte"
    with daemon(setup, {"efficientnet_lite0": model}, "[model efficientnet_lite0]\npin = yes\n") as d:  # READY with the model
        first = d.process
        setup.remote(d, "efficientnet_lite0", requests=20)
        for what, kills in (("restart", False), ("kill and start", True)):
            pairs = [pause(setup, d, kills) for _ in range(setup.pairs)]
            out.append({"what": f"{what} under 8 clients, stop to READY", "value": f"{median(p[1] for p in pairs):.1f} ms"})
            out.append(row(f"{what}: longest pause less one request, ÷ stop to READY", max(p[0] / p[1] for p in pairs),
                           "≤", 1.5, " ×"))
        d.process.terminate()
        d.process.wait()
        first.wait()
    with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder:
        model = pathlib.Path(folder) / "noop.pte"
        subprocess.run([str(setup.make_noop), "1024", str(model)], check=True)
        with daemon(setup, {"noop": model}) as d:
            pairs = [[setup.remote(d, "noop", requests=20000, **options)["p50_ms"] for options in ({}, {"reconnect": 60000})]
                     for _ in range(setup.pairs)]
    out.append({"what": "no-op model, p50 of a blocking request", "value": f"{median(p[0] for p in pairs) * 1e3:.1f} µs"})
    out.append(row("the same with reconnecting on ÷ off", median(on / off for off, on in pairs), "≤", 1.01, " ×"))
    return out + cached(setup)


def first_answer(setup, d, name):
    """From the start of another daemon in the place of a killed one until a client that reconnects has its answer, less one
    request, in ms. Until the killed one has ended may take long, if the disk is busy, and does not count."""
    before = n_requests(setup, d)
    with subprocess.Popen([str(setup.inferctl), "--socket", str(d.socket), "bench", "--json", "--requests", "60",
                           "--reconnect", "60000", name], stdout=subprocess.PIPE, text=True) as client:
        while n_requests(setup, d) < before + 10:  # it is at it
            pass
        killed_s = time.monotonic()
        d.process.kill()
        d.process.wait()
        ended_s = time.monotonic()
        start_until_ready(setup, d)
        result = json.loads(client.communicate()[0])
    return result["max_ms"] - result["p50_ms"] - (ended_s - killed_s) * 1e3


def cached(setup):
    """The first answer after a restart, with packed weights that were kept and without. Two daemons, which rest in turn."""
    model = SHARED / "efficientnet_lite0" / "xnnpack.bpte"
    what = "EfficientNet-Lite0 fp32, first answer after a start"
    if not model.exists():
        return [versus.left_out(what, f"{model} is not there")]
    with daemon(setup, {"net": model}) as kept, daemon(setup, {"net": model}, "cache_limit = 0\n") as plain:
        first = [kept.process, plain.process]
        setup.remote(kept, "net", requests=20)
        time.sleep(versus.CERTAIN_S)
        first_answer(setup, kept, "net")  # it sees that nobody has written to the files since
        pairs = [(first_answer(setup, kept, "net"), first_answer(setup, plain, "net")) for _ in range(setup.pairs)]
        for d in (kept, plain):
            d.process.terminate()
            d.process.wait()
        for process in first:
            process.wait()
    return [{"what": f"{what}, with the cache / without", "value": f"{median(a for a, _ in pairs):.1f} ms / "
             f"{median(b for _, b in pairs):.1f} ms"},
            row("with ÷ without", median(a / b for a, b in pairs), "≤", 0.5, " ×")]


def warm(setup):
    """The first answer of the first client of a daemon, for a model with a warm-up, beside those that follow."""
    results = []
    for _ in range(setup.pairs):
        with daemon(setup, {"net": MODELS / "efficientnet_lite0_int8.pte"}, "[model net]\nwarm_up = 2\n") as d:
            results.append(setup.remote(d, "net", requests=100, **{"warm-up": 1}))
    first = [r["first_ms"] - r["load_ms"] for r in results]
    return [{"what": "EfficientNet-Lite0 int8 after a warm-up, first answer / median of the next hundred",
             "value": f"{median(first):.2f} ms / {median(r['p50_ms'] for r in results):.2f} ms"},
            row("first ÷ median", median(f / r["p50_ms"] for f, r in zip(first, results)), "≤", 1.2, " ×")]


def deadline(setup):
    """How late calls with a timeout end while the daemon is stopped."""
    timeout_ms, n = 200, setup.requests // 3
    with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder:
        model = pathlib.Path(folder) / "noop.pte"
        subprocess.run([str(setup.make_noop), "1024", str(model)], check=True)
        with daemon(setup, {"noop": model}, "[limits]\nbindings = 4000\nregions = 4000\nfds = 8000\n") as d:
            command = [str(setup.deadlines), str(d.socket), "noop", str(timeout_ms * 1000), str(n)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as calls:
                if calls.stdout.readline() != "ready\n":
                    sys.exit("bench: deadlines failed")
                os.kill(d.pid, signal.SIGSTOP)
                try:
                    calls.stdin.write("stopped\n")
                    calls.stdin.flush()
                    line = calls.stdout.readline()
                finally:
                    os.kill(d.pid, signal.SIGCONT)
                calls.stdin.close()
            if not line:
                sys.exit("bench: deadlines failed")
    return [row(f"daemon stopped, timeout of {timeout_ms} ms: {what}, latest of {n} (median {late['p50_ms']:.2f} ms)",
                late["max_ms"], "≤", 10, " ms") for what, late in json.loads(line).items()]


BENCHES = {"efficientnet": efficientnet, "overhead": overhead, "isolation": isolation, "programs": programs, "openvino": openvino, "crowd": crowd,
           "interactive": interactive, "weights": weights, "memory": memory, "noop": noop, "idle": idle, "resting": resting,
           "killed": killed, "stops": stops, "reconnect": reconnect, "warm": warm, "deadline": deadline,
           **versus.benches(sys.modules[__name__]), **python_client.benches(sys.modules[__name__]),
           **gstreamer.benches(sys.modules[__name__]), **opencl.benches(sys.modules[__name__]),
           **http_client.benches(sys.modules[__name__]), **batching.benches(sys.modules[__name__]),
           **scale.benches(sys.modules[__name__])}


def machine():
    model = "unknown processor"
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Linux {os.uname().release}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--pairs", type=int, default=9, help="interleaved pairs a row (default: 9)")
    parser.add_argument("--requests", type=int, default=60, help="requests a measurement of a real model (default: 60)")
    parser.add_argument("--only", default="", help="comma-separated: " + ", ".join(BENCHES))
    parser.add_argument("--seconds", type=float, default=5, help="of saturating load, each time (default: 5)")
    parser.add_argument("--peer", help="runner of the original runtime")
    parser.add_argument("--peer-cache", help="the same runtime with its own weight cache (tests/bench/peer_cache.cpp)")
    parser.add_argument("--build-peer", metavar="RUNNER.cpp", help="build both in the user's cache, and use them")
    parser.add_argument("--batches", help="folder of the programs for several inputs (tests/bench/batching.py)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [n for n in options.only.split(",") if n] or list(BENCHES)
    for name in chosen:
        if name not in BENCHES:
            parser.error(f"no bench {name!r}; there are: {', '.join(BENCHES)}")
    if options.build_peer:
        options.peer, options.peer_cache = (
            subprocess.run([str(HERE / "peer.sh"), str(source)], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.strip() for source in (options.build_peer, HERE / "peer_cache.cpp"))
    setup = Setup(options)
    results = {name: BENCHES[name](setup) for name in chosen}
    rows = [r for rows in results.values() for r in rows]
    is_met = all(r.get("met", True) for r in rows)
    if options.json:
        print(json.dumps({"machine": machine(), "pairs": setup.pairs, "benches": results}, indent=2))
        return 0 if is_met else 1
    print(f"{machine()}; medians of {setup.pairs} interleaved pairs\n")
    print("| what | measured | bar |\n|---|---|---|")
    for r in rows:
        print(f"| {r['what']} | {r['value']} | {r.get('bar', '')}{'' if r.get('met', True) else ', not met'} |")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
