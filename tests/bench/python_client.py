# SPDX-License-Identifier: BSD-3-Clause
"""The Python package beside C: `bench.py --only python` runs this, and starts it again as the client.

    python_client.py infer|await SOCKET MODEL COUNT [SECONDS]

prints JSON: p50_us of COUNT blocking requests, and how many blocks of memory stay for each of them; or requests_per_s
with COUNT requests in flight on one event loop.
"""
import asyncio
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc

WARM_UP = 300


def infer(b, n):
    for _ in range(WARM_UP):
        b.infer()
    times = [0] * n
    clock, request = time.perf_counter_ns, b.infer
    for i in range(n):
        begin = clock()
        request()
        times[i] = clock() - begin
    return statistics.median(times) / 1e3


def slope(run, measure):
    """How much more of what @measure returns @run(n) leaves for each request more. What each run leaves does not count."""
    few, many, found = 1000, 11000, []
    run(few)
    for n in few, many:
        gc.collect()
        before = measure()
        run(n)
        gc.collect()
        found.append(measure() - before)
    return (found[1] - found[0]) / (many - few)


def stays(run):
    """What @run(n) leaves of each of its requests: (blocks of the allocator, bytes of tracemalloc)."""
    blocks = slope(run, sys.getallocatedblocks)
    tracemalloc.start()
    size = slope(run, lambda: tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return blocks, size


def repeat(b, n):
    for _ in range(n):
        b.infer()


async def awaited(bindings, seconds):
    """Requests a second with each binding in flight all the time."""
    done, end = 0, 0

    async def go_on(b):
        nonlocal done
        while time.monotonic() < end:
            await b.infer_async()
            done += 1
    await asyncio.gather(*(b.infer_async() for b in bindings))
    begin = time.monotonic()
    end = begin + seconds
    await asyncio.gather(*(go_on(b) for b in bindings))
    return done / (time.monotonic() - begin)


async def one_after_the_other(b, n):
    for _ in range(n):
        await b.infer_async()


def client(what, socket, model, count, seconds=0.0):
    import inferd
    with inferd.connect(socket) as d:
        m = d.open(model)
        bindings = [m.bind() for _ in range(count if what == "await" else 1)]
        if what == "await":
            return {"requests_per_s": asyncio.run(awaited(bindings, float(seconds)))}
        b = bindings[0]
        blocks, size = stays(lambda n: repeat(b, n))
        async_blocks, async_size = stays(lambda n: asyncio.run(one_after_the_other(b, n)))
        return {"p50_us": infer(b, count), "blocks": max(blocks, async_blocks), "bytes": max(size, async_size)}


def benches(bench):
    """For bench.py, whose module @bench is."""
    def ask(setup, d, what, model, count, seconds=0.0, core=None):
        package = setup.build / "clients" / "python"
        environment = dict(os.environ, PYTHONPATH=str(package), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, __file__, what, str(d.socket), model, str(count), str(seconds)], text=True,
                              env=environment, capture_output=True, preexec_fn=bench.on_core(core))
        if done.returncode:
            sys.exit(f"bench: {__file__} failed:\n{done.stderr}")
        return json.loads(done.stdout)

    def python(setup):
        """What Python costs: a blocking request of a no-op model, and 64 in flight on an event loop."""
        if not list((setup.build / "clients" / "python" / "inferd").glob("_inferd*.so")):
            return [{"what": "the Python package", "value": "left out: it is not built"}]
        cores, out, stay = sorted(os.sched_getaffinity(0)), [], []
        places = {"where the kernel puts them": None, "both on one core": cores[0]}
        if len(cores) > 1:
            places["on two cores"] = cores[1]
        with tempfile.TemporaryDirectory(prefix="inferd-noop-") as folder:
            model = pathlib.Path(folder) / "noop.pte"
            subprocess.run([str(setup.make_noop), "1024", str(model)], check=True)
            for place, core in places.items():
                rows = []
                with bench.daemon(setup, {"noop": model}, core=None if core is None else cores[0]) as d:
                    for _ in range(setup.pairs):
                        c = setup.remote(d, "noop", core=core, requests=20000, **{"warm-up": WARM_UP})["p50_ms"] * 1e3
                        found = ask(setup, d, "infer", "noop", 20000, core=core)
                        rows.append((c, found["p50_us"]))
                        stay.append((found["blocks"], found["bytes"]))
                out += [{"what": f"no-op model, {place}: p50 of a blocking request in C, in Python",
                         "value": f"{bench.median(r[0] for r in rows):.1f} µs, {bench.median(r[1] for r in rows):.1f} µs"},
                        bench.row(f"Python ÷ C, {place}", bench.median(b / a for a, b in rows), "≤", 1.25, " ×")]
        out += [bench.row("blocks of memory that stay for each request", max(s[0] for s in stay), "≤", 0.05),
                bench.row("bytes that stay for each request, of tracemalloc", max(s[1] for s in stay), "≤", 1)]
        rows = []
        with bench.daemon(setup, {"net": bench.MODELS / "efficientnet_lite0_int8.pte"}) as d:
            for _ in range(setup.pairs):
                c = bench.load(setup, d, setup.seconds, "net", "1:interactive:1:64")["requests_per_s"]
                rows.append((c, ask(setup, d, "await", "net", 64, setup.seconds)["requests_per_s"]))
        return out + [{"what": "EfficientNet-Lite0, 64 in flight on one connection: requests/s in C, awaited in Python",
                       "value": f"{bench.median(r[0] for r in rows):.0f}, {bench.median(r[1] for r in rows):.0f}"},
                      bench.row("Python ÷ C", bench.median(b / a for a, b in rows), "≥", 0.95, " ×")]

    return {"python": python}


if __name__ == "__main__":
    print(json.dumps(client(*sys.argv[1:4], int(sys.argv[4]), *sys.argv[5:])))
