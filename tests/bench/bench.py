#!/usr/bin/env python3
"""Every performance claim of the README, measured again.

    tools/debian13 tests/bench/bench.py --build build [--pairs N] [--only NAME,...] [--peer RUNNER] [--json]

Each row compares things that ran side by side: A, B, A, B, … in one go, at least nine times; what is printed are
medians of the pairs' figures and of their ratios. Absolute times belong to the machine named above the table and
prove nothing elsewhere. The peer is the original ExecuTorch runtime (see tests/bench/README.md for how to build its
runner); without it its rows are left out, and said to be.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
MODELS = TOP / "tests" / "models"


class Setup:
    """Where things are, and how often to measure."""

    def __init__(self, options):
        self.build = pathlib.Path(options.build).resolve()
        self.pairs = options.pairs
        self.requests = options.requests
        self.peer = options.peer
        self.inferctl = self.build / "clients" / "inferctl" / "inferctl"
        self.inferd = self.build / "daemon" / "inferd"
        self.pingpong = self.build / "tests" / "bench" / "pingpong"
        self.make_noop = self.build / "tests" / "bench" / "make_noop"
        for program in (self.inferctl, self.inferd, self.pingpong):
            if not program.exists():
                sys.exit(f"bench: {program} is missing: build first (ninja -C {options.build})")

    def json_of(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def ping(self):
        return self.json_of(self.pingpong, "3000")["p50_us"]

    def local(self, model, **options):
        return self.json_of(self.inferctl, "bench", "--local", "--json", *flags(options), model)

    def remote(self, daemon, name, **options):
        return self.json_of(self.inferctl, "--socket", daemon.socket, "bench", "--json", *flags(options), name)


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


@contextlib.contextmanager
def daemon(setup, models, *arguments):
    with tempfile.TemporaryDirectory(prefix="inferd-bench-") as folder:
        folder = pathlib.Path(folder)
        for name, source in models.items():
            place = folder / "models" / name / "1"
            place.mkdir(parents=True)
            shutil.copy(source, place / f"{name}.pte")
        command = [setup.inferd, "--models", folder / "models", "--socket", folder / "inferd.sock",
                   "--manager-socket", folder / "manager.sock", "--cache", folder, "--log-level", "warning", *arguments]
        process = subprocess.Popen([str(c) for c in command])
        try:
            wait_for_socket(process, folder / "inferd.sock")
            yield Daemon(process, folder)
        finally:
            process.terminate()
            process.wait()


def wait_for_socket(process, path):
    import socket
    import time
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
    """p50 of EfficientNet-Lite0 int8 in-process and through the daemon, all cores for the one request."""
    model = MODELS / "efficientnet_lite0_int8.pte"
    threads = len(os.sched_getaffinity(0))
    rows = []
    with daemon(setup, {"efficientnet_lite0": model}) as d:
        setup.remote(d, "efficientnet_lite0", requests=20)
        for _ in range(setup.pairs):
            a = setup.local(model, threads=threads, requests=setup.requests)["p50_ms"]
            b = setup.remote(d, "efficientnet_lite0", requests=setup.requests)["p50_ms"]
            rows.append((a, b))
    a, b = median(r[0] for r in rows), median(r[1] for r in rows)
    added = median(r[1] - r[0] for r in rows)
    return [{"what": "EfficientNet-Lite0 int8, one client, p50 in-process", "value": f"{a:.2f} ms"},
            {"what": "the same through the daemon", "value": f"{b:.2f} ms"},
            {"what": "difference (median of pairs)", "value": f"{added * 1000:.0f} µs"}]


def overhead(setup):
    """What a blocking request adds to the same Method run in-process, as a multiple of one socket round trip."""
    if not setup.make_noop.exists():
        return [{"what": "no-op model", "value": f"left out: {setup.make_noop} is missing"}]
    rows = []
    growth = {}
    with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder:
        sizes = {"noop_1k": 1 << 10, "noop_1m": 1 << 20, "noop_64m": 64 << 20}
        models = {}
        for name, n_bytes in sizes.items():
            models[name] = pathlib.Path(folder) / f"{name}.pte"
            subprocess.run([str(setup.make_noop), str(n_bytes), str(models[name])], check=True)
        with daemon(setup, models) as d:
            for _ in range(setup.pairs):
                ping = setup.ping()
                for name in sizes:
                    a = setup.local(models[name], threads=1, requests=3000)["p50_ms"] * 1000
                    b = setup.remote(d, name, requests=3000)["p50_ms"] * 1000
                    growth.setdefault(name, []).append(b - a)
                    if name == "noop_1k":
                        rows.append((ping, b - a, (b - a) / ping))
    base = median(growth["noop_1k"])
    return [{"what": "socket ping-pong between two processes, p50", "value": f"{median(r[0] for r in rows):.1f} µs"},
            {"what": "a blocking request adds (no-op model, 1 kB), p50", "value": f"{base:.1f} µs"},
            {"what": "as a multiple of the ping-pong", "value": f"{median(r[2] for r in rows):.2f} ×"},
            {"what": "the same with 64 MB of tensors, relative to 1 kB",
             "value": f"{median(growth['noop_64m']) / base:.2f} ×"}]


def isolation(setup):
    """A run of a plug-in that computes next to nothing, in a process of its own, beside one socket round trip."""
    check = setup.build / "delegates" / "plugin" / "inferd-delegate-check"
    plugin = setup.build / "tests" / "plugins" / "sync.so"
    make = setup.build / "tests" / "bench" / "make_delegated"
    if not (check.exists() and plugin.exists() and make.exists()):
        return [{"what": "plug-in in its own process", "value": f"left out: {plugin} is missing"}]
    environment = dict(os.environ, INFERD_DELEGATE_HOST=str(check.parent / "inferd-delegate-host"))
    rows = []
    with tempfile.TemporaryDirectory(prefix="inferd-plugin-") as folder:
        model = pathlib.Path(folder) / "scale.pte"
        subprocess.run([str(make), "scale", str(model)], check=True)
        for _ in range(setup.pairs):
            ping = setup.ping()
            done = subprocess.run([str(check), "-n", "3000", str(plugin), str(model)], env=environment,
                                  capture_output=True, text=True)
            found = re.search(r"p50 ([0-9.]+) us", done.stdout)
            if done.returncode or not found:
                sys.exit(f"bench: {check} failed:\n{done.stdout}{done.stderr}")
            rows.append((ping, float(found.group(1))))
    return [{"what": "a run of a no-op plug-in in its own process, p50",
             "value": f"{median(r[1] for r in rows):.1f} µs"},
            {"what": "as a multiple of the socket ping-pong", "value": f"{median(r[1] / r[0] for r in rows):.2f} ×"}]


BENCHES = {"efficientnet": efficientnet, "overhead": overhead, "isolation": isolation}


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
    parser.add_argument("--peer", help="runner of the original runtime")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [n for n in options.only.split(",") if n] or list(BENCHES)
    for name in chosen:
        if name not in BENCHES:
            parser.error(f"no bench {name!r}; there are: {', '.join(BENCHES)}")
    setup = Setup(options)
    results = {name: BENCHES[name](setup) for name in chosen}
    if options.json:
        print(json.dumps({"machine": machine(), "pairs": setup.pairs, "benches": results}, indent=2))
        return
    print(f"{machine()}; medians of {setup.pairs} interleaved pairs\n")
    print("| what | measured |\n|---|---|")
    for rows in results.values():
        for row in rows:
            print(f"| {row['what']} | {row['value']} |")


if __name__ == "__main__":
    main()
