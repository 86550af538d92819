# SPDX-License-Identifier: BSD-3-Clause
"""The HTTP gateway beside libinferd: `bench.py --only http` runs this, and starts it again as the client.

    http_client.py live|infer PORT COUNT [N_BYTES]      p50_us of COUNT requests on one connection
    http_client.py place PORT COUNT N_BYTES             p50_us of inputs in the body, and in shared memory

prints JSON. The client writes ready bytes to a socket, so that it measures the gateway and no library. Many connections
at a time are http_load.c's.
"""
import contextlib
import http.client
import json
import mmap
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP = 100


class Client:
    """One kept connection; all answers of a request have the same size."""

    def __init__(self, port, request):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request
        self.socket.sendall(request)
        answer = http.client.HTTPResponse(self.socket)
        answer.begin()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"http_client: {body}")
        self.socket.sendall(request)
        self.room = bytearray(65536)
        self.n_bytes = self.socket.recv_into(self.room)
        while b"\r\n\r\n" not in self.room or self.n_bytes < self.room.index(b"\r\n\r\n") + 4 + len(body):
            self.n_bytes += self.socket.recv_into(memoryview(self.room)[self.n_bytes:])

    def ask(self):
        self.socket.sendall(self.request)
        n = 0
        while n < self.n_bytes:
            n += self.socket.recv_into(self.room)

    def p50(self, count):
        for _ in range(WARM_UP):
            self.ask()
        times = [0] * count
        for i in range(count):
            begin = time.perf_counter_ns()
            self.ask()
            times[i] = time.perf_counter_ns() - begin
        return statistics.median(times) / 1e3


LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def infer(model, shape, binary, parameters=None):
    head = json.dumps({"inputs": [{"name": "input_0", "datatype": "FP32", "shape": shape,
                                   "parameters": parameters or {"binary_data_size": len(binary)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(head)}\r\n"
            f"Content-Length: {len(head) + len(binary)}\r\n\r\n").encode() + head + binary


def crowd(bench, setup, port, connections, seconds, model="net", core=None):
    """Requests per second of EfficientNet-Lite0."""
    request = infer(model, [1, 3, 224, 224], bytes(4 * 3 * 224 * 224))
    done = subprocess.run([str(setup.http_load), str(port), str(seconds), str(connections)], input=request, capture_output=True,
                          preexec_fn=bench.on_core(core))
    if done.returncode:
        sys.exit(f"bench: http_load failed:\n{done.stderr.decode()}")
    return json.loads(done.stdout)["requests_per_s"]


def place(port, count, n_bytes):
    """The client writes the input anew in both cases, as an application does: behind the head of its request, or into the file."""
    shape, data = [n_bytes // 4], os.urandom(n_bytes)

    def p50(client, to):
        plain = client.ask

        def ask():
            to[:] = data
            plain()
        client.ask = ask
        return client.p50(count)
    request = bytearray(infer("noop", shape, data))
    body = p50(Client(port, request), memoryview(request)[-n_bytes:])
    path = pathlib.Path(f"/dev/shm/inferd-bench-{os.getpid()}")
    try:
        with open(path, "w+b") as f:
            f.truncate(n_bytes)
            memory = mmap.mmap(f.fileno(), n_bytes)
        register = http.client.HTTPConnection("127.0.0.1", port)
        register.request("POST", "/v2/systemsharedmemory/unregister")
        register.getresponse().read()
        register.request("POST", "/v2/systemsharedmemory/region/r/register",
                         json.dumps({"key": path.name, "offset": 0, "byte_size": n_bytes}))
        if register.getresponse().status != 200:
            sys.exit("http_client: the region cannot be registered")
        client = Client(port, infer("noop", shape, b"", {"shared_memory_region": "r", "shared_memory_byte_size": n_bytes}))
        return {"body_us": body, "shared_us": p50(client, memory)}
    finally:
        path.unlink()


def client(what, port, count, rest=0):
    if what == "place":
        return place(port, count, int(rest))
    request = LIVE if what == "live" else infer("noop", [int(rest) // 4], bytes(int(rest)))
    return {"p50_us": Client(port, request).p50(count)}


def benches(bench):
    """For bench.py, whose module @bench is."""
    @contextlib.contextmanager
    def gateway(setup, d):
        config = d.folder / "inferd-http.conf"
        config.write_text(f"[http]\nsocket =\nlisten = 127.0.0.1:0\ndaemon = {d.socket}\nshared_memory = yes\n")
        process = subprocess.Popen([str(setup.build / "clients" / "http" / "inferd-http"), "--config", str(config)],
                                   stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            yield int(re.search(r"port (\d+)", line).group(1))
        finally:
            process.terminate()
            process.wait()
            process.stderr.close()

    def ask(what, port, *arguments):
        done = subprocess.run([sys.executable, __file__, what, str(port), *map(str, arguments)], text=True, capture_output=True)
        if done.returncode:
            sys.exit(f"bench: {__file__} failed:\n{done.stderr}")
        return json.loads(done.stdout)

    def http_rows(setup):
        """What HTTP costs: a no-op model on one kept connection, a crowd, and large inputs in two ways."""
        if not (setup.build / "clients" / "http" / "inferd-http").exists():
            return [{"what": "the HTTP gateway", "value": "left out: it is not built"}]
        rows, places = [], []
        with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder:
            model = pathlib.Path(folder) / "noop.pte"
            subprocess.run([str(setup.make_noop), "1024", str(model)], check=True)
            with bench.daemon(setup, {"noop": model}) as d, gateway(setup, d) as port:
                for _ in range(setup.pairs):
                    c = setup.remote(d, "noop", requests=5000, **{"warm-up": WARM_UP})["p50_ms"] * 1e3
                    rows.append((c, ask("live", port, 3000)["p50_us"], ask("infer", port, 3000, 1024)["p50_us"]))
            subprocess.run([str(setup.make_noop), str(4 << 20), str(model)], check=True)
            with bench.daemon(setup, {"noop": model}) as d, gateway(setup, d) as port:
                for _ in range(setup.pairs):
                    found = ask("place", port, 200, 4 << 20)
                    places.append((found["body_us"], found["shared_us"]))
        out = [{"what": "no-op model: p50 native; of GET /v2/health/live; of a request over HTTP",
                "value": ", ".join(f"{bench.median(r[i] for r in rows):.1f} µs" for i in range(3))},
               bench.row("the last over the first + 2 × the second", bench.median(r[2] / (r[0] + 2 * r[1]) for r in rows), "≤", 1,
                         " ×"),
               {"what": "4 MB of inputs: p50 in the body, in shared memory",
                "value": ", ".join(f"{bench.median(r[i] for r in places):.0f} µs" for i in range(2))},
               bench.row("shared memory ÷ body", bench.median(b / a for a, b in places), "≤", 0.6, " ×")]
        rows = []
        with bench.daemon(setup, {"net": bench.MODELS / "efficientnet_lite0_int8.pte"}) as d, gateway(setup, d) as port:
            for _ in range(setup.pairs):
                rows.append((bench.load(setup, d, setup.seconds, "net", "8")["requests_per_s"],
                             crowd(bench, setup, port, 8, setup.seconds)))
        return out + [{"what": "EfficientNet-Lite0, 8 clients: requests/s native, over HTTP",
                       "value": f"{bench.median(r[0] for r in rows):.0f}, {bench.median(r[1] for r in rows):.0f}"},
                      bench.row("HTTP ÷ native", bench.median(b / a for a, b in rows), "≥", 0.95, " ×")]

    return {"http": http_rows}


if __name__ == "__main__":
    print(json.dumps(client(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])))
