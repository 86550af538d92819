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
isolation = thread
platforms = Portable Computing Language
devices = cpu
"""


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
            with bench.daemon(setup, {"net": ours}, CONFIG.format(plugin=setup.build / "delegates/opencl/opencl.so")) as d, \
                    bench.Load(setup, d, 1, "net", str(clients)) as run:
                run.wait()
                totals.append(bench.pss(d.pid))
        return [ratio("EfficientNet-Lite0 vulkan_fp16 ÷ XNNPACK fp32, p50", pairs, "≤", 3),
                row(f"kernels that it starts, less its {n_convolutions} convolutions", n - n_convolutions, "≤", 6),
                ratio("wall time of a run ÷ the sum of its kernels, one at a time", walls, "≤", 1.25),
                {"what": "memory of the daemon with one client of it (Pss)", "value": f"{totals[0] / 2**20:.0f} MiB"},
                row("with 8 clients over with one", totals[1] / totals[0], "≤", 1.25)]

    def opencl(setup):
        plugin = setup.build / "delegates" / "opencl" / "opencl.so"
        if not plugin.exists():
            return left_out("OpenCL", f"{plugin} is not there")
        with tempfile.TemporaryDirectory(prefix="inferd-opencl-") as folder:
            folder = pathlib.Path(folder)
            config = folder / "inferd.conf"
            config.write_text("[server]\n" + CONFIG.format(plugin=plugin))
            return network(setup, folder, config) + layers(setup)

    return {"opencl": opencl}
