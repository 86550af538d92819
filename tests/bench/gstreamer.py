# SPDX-License-Identifier: BSD-3-Clause
"""The GStreamer element beside a loop in C: `bench.py --only gstreamer` runs this, with tests/bench/frames.c."""
import json
import os
import subprocess
import sys


def benches(bench):
    """For bench.py, whose module @bench is."""
    def frames(setup, d, how):
        environment = dict(os.environ, GST_PLUGIN_PATH=str(setup.build / "clients" / "gstreamer"),
                           GST_REGISTRY=str(d.folder / "registry"))
        command = [str(setup.build / "tests" / "bench" / "frames"), how, str(d.socket), "net", str(setup.requests)]
        done = subprocess.run(command, text=True, env=environment, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"bench: {' '.join(command)} failed:\n{done.stderr}")
        return json.loads(done.stdout)

    def gstreamer(setup):
        """Frames a second through inferdfilter and through a loop in C that converts and infers the same."""
        if not (setup.build / "tests" / "bench" / "frames").exists():
            return [{"what": "the GStreamer element", "value": "left out: it is not built"}]
        rows = []
        with bench.daemon(setup, {"net": bench.MODELS / "efficientnet_lite0_int8.pte"}) as d:
            for _ in range(setup.pairs):
                loop, element = frames(setup, d, "loop"), frames(setup, d, "element")
                if loop["sum"] != element["sum"]:
                    sys.exit("bench: the element's results are not those of the loop")
                rows.append((loop["frames_per_s"], element["frames_per_s"]))
        return [{"what": "EfficientNet-Lite0, RGB of 224 x 224: frames a second of a loop in C, of inferdfilter",
                 "value": f"{bench.median(r[0] for r in rows):.0f}, {bench.median(r[1] for r in rows):.0f}"},
                bench.row("inferdfilter ÷ C", bench.median(b / a for a, b in rows), "≥", 0.95, " ×")]

    return {"gstreamer": gstreamer}
