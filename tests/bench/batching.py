# SPDX-License-Identifier: BSD-3-Clause
"""One run of a program for eight inputs beside eight runs of the program for one: rows of bench.py, which passes its
module.

Where eight together took no more than 0.7 of the time, the daemon should put requests together. The programs for
eight are made by tools/export and looked for in --batches:

    tools/export/export --model efficientnet_lite0_b8 minilm_b8 minilm_b1 yolo11n_b8 yolo11n_b1 --out DIR
"""
import pathlib
import tempfile

import opencl

# What, the program for one in shared/models or in --batches, the one for eight in --batches, whether OpenCL runs it.
PROGRAMS = [
    ("EfficientNet-Lite0 fp32, XNNPACK", "efficientnet_lite0/xnnpack", "batch/efficientnet_lite0_b8_xnnpack", False),
    ("EfficientNet-Lite0 int8, XNNPACK", "efficientnet_lite0/xnnpack_int8", "batch/efficientnet_lite0_b8_xnnpack_int8", False),
    ("MiniLM qd8, XNNPACK", "minilm/xnnpack_qd8", "batch/minilm_b8_xnnpack_qd8", False),
    ("YOLO11n fp32, XNNPACK", "yolo/yolo11n_xnnpack", "batch/yolo11n_b8_xnnpack", False),
    ("EfficientNet-Lite0 fp16, OpenCL", "efficientnet_lite0/vulkan_fp16", "batch/efficientnet_lite0_b8_vulkan_fp16", True),
    ("MiniLM fp32, OpenCL", "batch/minilm_b1_vulkan", "batch/minilm_b8_vulkan", True),
    ("YOLO11n fp32, OpenCL", "batch/yolo11n_b1_vulkan", "batch/yolo11n_b8_vulkan", True),
]
RUNS = 40  # of the program for one, in each measurement


def benches(bench):
    """Name -> function of Setup, as bench.BENCHES has them."""
    def find(setup, name):
        found = [folder / f"{name}.bpte" for folder in (bench.SHARED, setup.batches) if folder]
        return next((path for path in found if path.exists()), None)

    def measure(setup, what, one, eight, options):
        pairs = []
        for _ in range(setup.pairs):
            a = setup.local(one, requests=RUNS, **options, **{"warm-up": 4})["p50_ms"]
            pairs.append((8 * a, setup.local(eight, requests=RUNS // 8, **options, **{"warm-up": 2})["p50_ms"]))
        alone, together = (bench.median(p[i] for p in pairs) for i in range(2))
        return {"what": f"{what}: 8 inputs at once ÷ 8 one by one", "value":
                f"{bench.median(b / a for a, b in pairs):.2f} × ({together:.1f} and {alone:.1f} ms)", "bar": "batching if ≤ 0.7 ×"}

    def batching(setup):
        rows = []
        with tempfile.TemporaryDirectory(prefix="inferd-batching-") as folder:
            folder = pathlib.Path(folder)
            plugin, config = setup.build / "delegates" / "opencl" / "opencl.so", folder / "inferd.conf"
            config.write_text("[server]\n" + opencl.CONFIG.format(plugin=plugin))
            for what, one, eight, is_opencl in PROGRAMS:
                paths = [find(setup, name) for name in (one, eight)]
                if None in paths or (is_opencl and not plugin.exists()):
                    rows.append({"what": what, "value": "left out: a program or the plug-in is not there"})
                    continue
                paths = [bench.program_of(path, folder) for path in paths]
                rows.append(measure(setup, what, *paths, {"config": config} if is_opencl else {"threads": 1}))
        return rows

    return {"batching": batching}
