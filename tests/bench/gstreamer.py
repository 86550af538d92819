# SPDX-License-Identifier: BSD-3-Clause
"""The GStreamer element beside a loop in C (tests/bench/frames.c) and beside onnxinference: `bench.py --only gstreamer`.

The graph for onnxinference has the layers and sizes of EfficientNet-Lite0 (onnx_peer.py), written with PyPI's package onnx,
which is installed in the build folder.
"""
import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
N_PIPELINES, N_FRAMES = 4, 20
SOURCE = "videotestsrc is-live=true ! video/x-raw,format=RGB,width=224,height=224,framerate=5/1 ! "


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

    def graph(setup):
        """The network as ONNX; None: it cannot be made."""
        path, environment = setup.build / "efficientnet_lite0.onnx", setup.build / "onnx"
        if not path.exists():
            python = environment / "bin" / "python"
            steps = ([sys.executable, "-m", "venv", "--clear", environment],
                     [python, "-m", "pip", "install", "-qq", "--only-binary=:all:", "onnx"],
                     [python, HERE / "onnx_peer.py", "make", path])
            if any(subprocess.run([str(a) for a in step], check=False).returncode for step in steps):
                return None
        return path

    def memory_of(element, environment, *others):
        """Pss of pipelines with @element that run, and of the processes @others."""
        with contextlib.ExitStack() as stack:
            pipelines = []
            for _ in range(N_PIPELINES):
                p = subprocess.Popen(["gst-launch-1.0", "-v", *f"{SOURCE}{element} ! fakesink silent=false".split()],
                                     env=environment, stdout=subprocess.PIPE, text=True,
                                     stderr=subprocess.DEVNULL)  # Debian's ONNX prints thousands of lines
                stack.callback(p.wait)
                stack.callback(p.terminate)
                pipelines.append(p)
            for p in pipelines:  # until each has computed some frames
                frames = (line for line in p.stdout if "last-message = chain" in line)
                if len(list(itertools.islice(frames, N_FRAMES))) < N_FRAMES:
                    sys.exit(f"bench: a pipeline with {element} has ended")
            return sum(bench.pss(pid) for pid in [p.pid for p in pipelines] + list(others))

    def memory(setup):
        """Four pipelines in four processes, with the daemon, beside four with onnxinference."""
        what = f"memory of {N_PIPELINES} pipelines in processes of their own, of the daemon too (Pss)"
        program = bench.SHARED / "efficientnet_lite0" / "xnnpack.bpte"
        environment = dict(os.environ, GST_PLUGIN_PATH=str(setup.build / "clients" / "gstreamer"))
        has_onnx = subprocess.run(["gst-inspect-1.0", "onnxinference"], capture_output=True, check=False).returncode == 0
        path = graph(setup) if has_onnx and program.exists() else None
        if not path:
            return [{"what": what, "value": "left out: " + ("GStreamer has no onnxinference" if not has_onnx else
                                                            "../shared is not there" if not program.exists() else
                                                            "PyPI's onnx cannot be installed")}]
        rows = []
        with tempfile.TemporaryDirectory() as folder, bench.daemon(setup, {"net": program}) as d:
            environment |= {"GST_REGISTRY": f"{folder}/registry", "INFERD_SOCKET": str(d.socket)}
            for _ in range(min(setup.pairs, 3)):
                ours = memory_of("inferdfilter model=net input-tensor-offset=-127 input-tensor-scale=128", environment, d.pid)
                theirs = memory_of(f"onnxinference model-file={path} input-image-format=chw input-tensor-offset=-127 "
                                   "input-tensor-scale=128", environment)
                rows.append((ours, theirs))
        return [{"what": f"{what}: inferdfilter, onnxinference",
                 "value": ", ".join(f"{bench.median(r[i] for r in rows) / 2**20:.0f} MiB" for i in range(2))},
                bench.row("inferdfilter ÷ onnxinference", bench.median(a / b for a, b in rows), "≤", 0.4, " ×")]

    return {"gstreamer": gstreamer, "gstreamer-memory": memory}
