# SPDX-License-Identifier: BSD-3-Clause
"""HAProxy in front of several gateways, with clients/scale/haproxy.cfg: rows of bench.py, which passes its module.

There are as many daemons as cores less one, each with its gateway on a core of its own; HAProxy and the clients
have the last core.
"""
import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import http_client

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin")


def benches(bench):
    """For bench.py, whose module @bench is."""
    @contextlib.contextmanager
    def machine(setup, core):
        """A daemon and a gateway on @core; the gateway's port."""
        with bench.daemon(setup, {"efficientnet_lite0": bench.MODELS / "efficientnet_lite0_int8.pte"}, "workers = 1\n",
                          core=core) as d:
            config = d.folder / "inferd-http.conf"
            config.write_text(f"[http]\nsocket =\nlisten = 127.0.0.1:0\ndaemon = {d.socket}\n")
            process = subprocess.Popen([str(setup.build / "clients" / "http" / "inferd-http"), "--config", str(config)],
                                       stderr=subprocess.PIPE, text=True, preexec_fn=bench.on_core(core))
            try:
                yield int(re.search(r"port (\d+)", process.stderr.readline()).group(1))
            finally:
                process.terminate()
                process.wait()
                process.stderr.close()

    def show(admin):
        """HAProxy's statistics, with the result of each health check; "" until it has started."""
        with socket.socket(socket.AF_UNIX) as s:
            if s.connect_ex(admin):
                return ""
            s.sendall(b"show stat\n")
            with s.makefile() as answer:
                return answer.read()

    @contextlib.contextmanager
    def haproxy(ports, core):
        """HAProxy's port, when it sees all machines."""
        with tempfile.TemporaryDirectory(prefix="inferd-scale-") as folder, socket.create_server(("127.0.0.1", 0)) as front:
            text = (bench.TOP / "clients" / "scale" / "haproxy.cfg").read_text()
            text = re.sub(r"/run/haproxy", folder, text).replace("bind 127.0.0.1:8000", f"bind fd@{front.fileno()}")
            text = text.replace("bind 127.0.0.1:8405", f"bind {folder}/metrics.sock").replace("/dev/log", f"{folder}/log")
            text = re.sub(r"(?m)^(    server )one( +)\S+(.*)$", lambda m: "\n".join(
                f"{m[1]}m{i}{m[2]}127.0.0.1:{port}{m[3].replace('/one', f'/m{i}')}" for i, port in enumerate(ports)), text)
            text = re.sub(r"(?m)^    server (two|three).*\n", "", text)
            (pathlib.Path(folder) / "haproxy.cfg").write_text(text)
            process = subprocess.Popen([HAPROXY, "-db", "-f", f"{folder}/haproxy.cfg"], stderr=subprocess.DEVNULL,
                                       pass_fds=[front.fileno()], preexec_fn=bench.on_core(core))
            try:
                admin = f"{folder}/admin.sock"
                while show(admin).count(",L7OK,") < len(ports):
                    if process.poll() is not None:
                        sys.exit("bench: HAProxy has ended")
                yield front.getsockname()[1]
            finally:
                process.terminate()
                process.wait()

    def ask(setup, port, connections, core):
        return http_client.crowd(bench, setup, port, connections, setup.seconds, "efficientnet_lite0", core)

    def scale(setup):
        """EfficientNet-Lite0 through HAProxy from all machines, beside one machine asked directly."""
        cores = sorted(os.sched_getaffinity(0))
        if not HAPROXY or len(cores) < 2:
            return [{"what": "HAProxy", "value": "left out: it is not installed, or there is one core"}]
        *cores, last = cores
        pairs = []
        with contextlib.ExitStack() as stack:
            ports = [stack.enter_context(machine(setup, core)) for core in cores]
            front = stack.enter_context(haproxy(ports, last))
            for _ in range(setup.pairs):
                one = ask(setup, ports[0], 8, last)
                pairs.append((one, ask(setup, front, 8 * len(ports), last)))
        n = len(cores)
        return [{"what": f"EfficientNet-Lite0 int8, a core each: requests/s of one machine; of {n} through HAProxy",
                 "value": ", ".join(f"{bench.median(p[i] for p in pairs):.1f}" for i in range(2))},
                bench.row(f"through HAProxy ÷ ({n} × one)", bench.median(b / (n * a) for a, b in pairs), "≥", 0.9, " ×")]

    return {"scale": scale}
