# SPDX-License-Identifier: BSD-3-Clause
"""The OpenCL plug-in on PoCL, so on the same cores, beside XNNPACK: rows of bench.py, which passes its module.

PoCL stands in for a GPU. The ratios say how good the kernels and the engine are, not what a GPU would do.
"""
import json
import pathlib
import tempfile

CONFIG = """backends = opencl, xnnpack, portable
[backend opencl]
path = {plugin}
platforms = Portable Computing Language
devices = cpu
"""
# The plug-in in the daemon; and, as installed, in its own process, which may start the linker that PoCL's compiler needs.
THREAD = CONFIG + "isolation = thread\n"
PROCESS = CONFIG + "host = {host}\nbuild_tools = yes\nload_timeout = 5m\n"
SLICE_MS = 5  # the bar's


def left_out(what, why):
    return [{"what": what, "value": f"left out: {why}"}]


def benches(bench):
    """Name -> function of Setup, as bench.BENCHES has them."""
    median, row = bench.median, bench.row

    def ratio(what, pairs, relation, bar, unit="ms"):
        a, b = (median(p[i] for p in pairs) for i in range(2))
        out = row(what, median(p[0] / p[1] for p in pairs), relation, bar, " ×")
        out["value"] += f" ({a:.3g} and {b:.3g} {unit})"
        return out

    def filled(setup, config):
        return config.format(plugin=setup.build / "delegates" / "opencl" / "opencl.so",
                             host=setup.build / "delegates" / "plugin" / "inferd-delegate-host")

    def layers(setup):
        """Single layers, whose arguments are used in place."""
        kernels = setup.build / "tests" / "bench" / "opencl_kernels"
        t = setup.json_of(kernels, setup.build / "delegates" / "opencl" / "opencl.so", setup.pairs)
        of = lambda a, b: list(zip(t[a], t[b]))
        return [ratio("time of XNNPACK's sgemm 512³ ÷ ours", of("xnnpack_512", "sgemm_512"), "≥", 0.6, "µs"),
                ratio("int8 matrix product 512³ ÷ float", of("qgemm_512", "sgemm_512"), "≤", 1.5, "µs"),
                ratio("int8 convolution 3 × 3, 64 channels of 56 × 56 ÷ float", of("qconv_3x3", "conv_3x3"), "≤", 1.5, "µs"),
                ratio("4-bit vector by matrix 4096² ÷ float", of("gemv4_4096", "gemv_4096"), "≤", 0.8, "µs"),
                row("tensor bytes copied for them", t["copied_bytes"], "≤", 0)]

    def parts(setup, program, config, folder):
        """What a run starts, and how long that takes, each waited for by itself: (how many, convolutions, ms)."""
        trace = folder / "profile.json"
        setup.local(program, requests=5, config=config, profile=trace)
        events = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "operator"]
        return len(events), sum("conv" in e["name"] for e in events), sum(e["dur"] for e in events) / 1e3

    def network(setup, folder, config):
        """EfficientNet-Lite0 as exported for Vulkan beside XNNPACK, on all cores."""
        models = bench.SHARED / "efficientnet_lite0"
        if not models.exists():
            return left_out("EfficientNet-Lite0 on OpenCL", f"{models} is not there")
        ours, other = (bench.program_of(models / f"{name}.bpte", folder) for name in ("vulkan_fp16", "xnnpack"))
        setup.local(ours, requests=20, config=config)
        pairs, walls = [], []
        for _ in range(setup.pairs):
            a = setup.local(ours, requests=setup.requests, config=config)["p50_ms"]
            b = setup.local(other, requests=setup.requests, threads=setup.cores)["p50_ms"]
            n, n_convolutions, sum_ms = parts(setup, ours, config, folder)
            pairs.append((a, b))
            walls.append((a, sum_ms))
        totals = []
        for clients in (1, 8):
            with bench.daemon(setup, {"net": ours}, filled(setup, THREAD)) as d, \
                    bench.Load(setup, d, 1, "net", str(clients)) as run:
                run.wait()
                totals.append(bench.pss(d.pid))
        return [ratio("EfficientNet-Lite0 vulkan_fp16 ÷ XNNPACK fp32, p50", pairs, "≤", 3),
                row(f"kernels that it starts, less its {n_convolutions} convolutions", n - n_convolutions, "≤", 6),
                ratio("wall time of a run ÷ the sum of its kernels, one at a time", walls, "≤", 1.25),
                {"what": "memory of the daemon with one client of it (Pss)", "value": f"{totals[0] / 2**20:.0f} MiB"},
                row("with 8 clients over with one", totals[1] / totals[0], "≤", 1.25)]

    def loads(setup, ours):
        """The first load, which compiles its kernels, beside the first load of the next daemon, which finds them."""
        pairs = []
        for _ in range(min(setup.pairs, 3)):
            with bench.daemon(setup, {"net": ours}, filled(setup, PROCESS)) as d:
                first = setup.remote(d, "net", requests=1)["load_ms"]
                d.process.kill()
                d.process.wait()
                bench.start_until_ready(setup, d)
                pairs.append((setup.remote(d, "net", requests=1)["load_ms"], first))
                d.process.terminate()
                d.process.wait()
        return [ratio("EfficientNet-Lite0, load with the kernels in the cache ÷ the first", pairs, "≤", 0.25)]

    def isolated(setup, ours):
        """A request through the daemon: the plug-in in a process of its own beside the one in the daemon."""
        pairs, n_copied = [], 0
        with bench.daemon(setup, {"net": ours}, filled(setup, PROCESS)) as process, \
                bench.daemon(setup, {"net": ours}, filled(setup, THREAD)) as thread:
            for d in (process, thread):
                setup.remote(d, "net", requests=20)
            for _ in range(setup.pairs):
                pairs.append([setup.remote(d, "net", requests=setup.requests)["p50_ms"] for d in (process, thread)])
            for d in (process, thread):
                status = setup.json_of(setup.inferctl, "--json", "--socket", d.socket, "status")
                n_copied += status["copied_bytes"]
        return [ratio("EfficientNet-Lite0 in a process ÷ in the daemon, p50 of a request", pairs, "≤", 1.05),
                row("tensor bytes copied for all its requests", n_copied, "≤", 0)]

    def interactive(setup, ours):
        """An interactive client beside a batch client with more requests than the device takes at once."""
        rows = []
        with bench.daemon(setup, {"net": ours}, filled(setup, PROCESS)) as d:
            for _ in range(setup.pairs):
                alone = bench.load(setup, d, setup.seconds, "net", "1:interactive")["clients"][0]["p50_us"] / 1e3
                clients = bench.load(setup, d, setup.seconds, "net", "1:interactive", "1:batch:0:4")["clients"]
                rows.append((alone, clients[0]["p50_us"] / 1e3, clients[0]["p99_us"] / 1e3, clients[1]["requests"]))
        p50, beside, p99, n = (median(r[i] for r in rows) for i in range(4))
        return [{"what": "an interactive client of it, p50 alone / p50 / p99 beside a batch client with 4 in flight",
                 "value": f"{p50:.1f} / {beside:.1f} / {p99:.1f} ms ({n:.0f} batch requests meanwhile)"},
                row("its p99 ÷ (2 × its p50 alone + a slice)", median(r[2] / (2 * r[0] + SLICE_MS) for r in rows), "≤", 1,
                    " ×")]

    def together(setup, ours, other):
        """A client of the CPU and one of the device, which have a core each. The rates have different units, so each is
        taken in units of its rate alone."""
        if setup.cores < 2:
            return left_out("a CPU client and a GPU client at the same time", "there is one core")
        rows = []
        config = "workers = 1\n" + filled(setup, PROCESS) + "environment.POCL_CPU_MAX_CU_COUNT = 1\n"
        with bench.daemon(setup, {"gpu": ours, "cpu": other}, config) as d:
            names = ("gpu", "cpu")
            for _ in range(setup.pairs):
                alone = [bench.load(setup, d, setup.seconds, name, "1")["requests_per_s"] for name in names]
                with bench.Load(setup, d, setup.seconds, names[0], "1") as a, \
                        bench.Load(setup, d, setup.seconds, names[1], "1") as b:
                    both = [run.wait()["requests_per_s"] for run in (a, b)]
                rows.append([b / a for a, b in zip(alone, both)])
        shares = [median(r[i] for r in rows) for i in range(2)]
        return [row("a GPU client and a CPU client together, a core each, ÷ the sum of both alone",
                    median(sum(r) / 2 for r in rows), "≥", 0.9, " ×") |
                {"value": f"{median(sum(r) / 2 for r in rows):.3g} × ({shares[0]:.2f} and {shares[1]:.2f} of their rates)"}]

    def service(setup, folder):
        models = bench.SHARED / "efficientnet_lite0"
        if not models.exists():
            return left_out("EfficientNet-Lite0 on OpenCL in the daemon", f"{models} is not there")
        ours, other = (bench.program_of(models / f"{name}.bpte", folder) for name in ("vulkan_fp16", "xnnpack"))
        return loads(setup, ours) + isolated(setup, ours) + interactive(setup, ours) + together(setup, ours, other)

    def of(*parts):
        """A bench of these parts."""
        def run(setup):
            plugin = setup.build / "delegates" / "opencl" / "opencl.so"
            if not plugin.exists():
                return left_out("OpenCL", f"{plugin} is not there")
            with tempfile.TemporaryDirectory(prefix="inferd-opencl-") as folder:
                return [r for part in parts for r in part(setup, pathlib.Path(folder))]
        return run

    def alone(setup, folder):
        config = folder / "inferd.conf"
        config.write_text("[server]\n" + filled(setup, THREAD))
        return network(setup, folder, config) + layers(setup)

    return {"opencl": of(alone, service), "opencl-service": of(service)}
