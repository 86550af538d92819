# SPDX-License-Identifier: BSD-3-Clause
"""One engine, for peers.py, in the environment that it makes (packages.py).

    PYTHON peer_engine.py prepare FOLDER                      make what engines need beside the graph
    PYTHON peer_engine.py run ENGINE FOLDER TYPE THREADS N    time N runs: JSON with p50_ms, error, version
    PYTHON peer_engine.py compare FOLDER OUTPUT.npy...        JSON with error

FOLDER is one of tools/export's: onnx.onnx, onnx.npz with inputs and PyTorch's outputs, torchscript.pt. TYPE is fp32 or int8.
Errors are relative: the distance of an output from PyTorch's (before quantization) over the length of that, of the worst output.
Inputs are set once, and outputs stay where the engine has them, where it lets us: only runs are measured.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy

MAX_SECONDS = 300  # of a conversion
WARM_UP = 5


def arrays(folder, kind):
    data = numpy.load(folder / "onnx.npz")
    return {name: data[name] for name in data.files if name.startswith(kind)}


def error_of(folder, outputs):
    wanted = list(arrays(folder, "output").values())
    if len(outputs) != len(wanted):
        raise ValueError(f"{len(outputs)} outputs, not {len(wanted)}")
    worst = 0.0
    for got, want in zip(outputs, wanted):
        if got.size != want.size:
            raise ValueError(f"an output of {got.size} elements, not {want.size}")
        got, want = got.astype(numpy.float64).ravel(), want.astype(numpy.float64).ravel()
        far = numpy.linalg.norm(got - want) / max(numpy.linalg.norm(want), 1e-12)
        worst = max(worst, float(far) if numpy.isfinite(far) else float("inf"))
    return worst


def graph(folder, kind):
    return str(folder / ("onnx.onnx" if kind == "fp32" else "onnx_int8.onnx"))


# --- ONNX Runtime ---------------------------------------------------------------


def quantize(folder):
    """Static int8 with quantized and dequantized tensors, weights per channel: what ONNX Runtime and OpenVINO both read."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Shots(CalibrationDataReader):
        def __init__(self):
            found = {}
            for name, value in arrays(folder, "calibration").items():
                shot, name = name.split("_", 1)
                found.setdefault(shot, {})[name] = value
            self.shots = iter(found.values())

        def get_next(self):
            return next(self.shots, None)

    ready = folder / "onnx_ready.onnx"
    quant_pre_process(graph(folder, "fp32"), str(ready), skip_symbolic_shape=True)
    quantize_static(str(ready), graph(folder, "int8"), Shots(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    ready.unlink()


def onnxruntime(folder, kind, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(graph(folder, kind), options, providers=["CPUExecutionProvider"])
    inputs, binding = arrays(folder, "input"), session.io_binding()
    for one in session.get_inputs():
        binding.bind_ortvalue_input(one.name, ort.OrtValue.ortvalue_from_numpy(inputs[one.name]))
    for one in session.get_outputs():
        binding.bind_output(one.name)
    session.run_with_iobinding(binding)
    outputs = binding.get_outputs()
    for one, value in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(one.name, value)
    return lambda: session.run_with_iobinding(binding), lambda: [value.numpy() for value in outputs], ort.__version__


# --- OpenVINO -------------------------------------------------------------------


def openvino(folder, kind, threads):
    import openvino as ov

    compiled = ov.Core().compile_model(graph(folder, kind), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    request, inputs = compiled.create_infer_request(), arrays(folder, "input")
    for port in compiled.inputs:
        request.set_tensor(port, ov.Tensor(inputs[port.get_any_name()]))

    def run():
        request.start_async()
        request.wait()

    return run, lambda: [request.get_output_tensor(i).data for i in range(len(compiled.outputs))], ov.__version__.split("-")[0]


# --- ncnn -----------------------------------------------------------------------


def convert(folder):
    """pnnx leaves operators that ncnn lacks under their own names; then ncnn does not load the network."""
    place = folder / "ncnn"
    place.mkdir(exist_ok=True)
    types = {"float32": "f32", "int64": "i64"}
    shapes = ",".join(str(list(x.shape)).replace(" ", "") + types[x.dtype.name] for x in arrays(folder, "input").values())
    program = pathlib.Path(importlib.util.find_spec("pnnx").submodule_search_locations[0]) / "pnnx"
    files = [f"{kind}={place / name}" for kind, name in (
        ("ncnnparam", "net.param"), ("ncnnbin", "net.bin"), ("ncnnpy", "ncnn.py"), ("pnnxparam", "pnnx.param"),
        ("pnnxbin", "pnnx.bin"), ("pnnxpy", "pnnx.py"), ("pnnxonnx", "pnnx.onnx"))]
    done = subprocess.run([str(program), str(folder / "torchscript.pt"), f"inputshape={shapes}", "fp16=0", *files],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=MAX_SECONDS)
    (place / "log").write_text(done.stdout)
    if done.returncode != 0 or not (place / "net.bin").exists():
        raise ValueError(f"pnnx ends with {done.returncode}: {' '.join(done.stdout.splitlines()[-1:])}")


def ncnn(folder, kind, threads):
    import ncnn as engine

    if kind != "fp32":
        raise ValueError("its int8 tools are in no package")
    inputs = list(arrays(folder, "input").values())
    net = engine.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    if net.load_param(str(folder / "ncnn" / "net.param")) or net.load_model(str(folder / "ncnn" / "net.bin")):
        raise ValueError("it does not load what pnnx converts")
    # Its networks have no batches, and int32 for int64.
    inputs = [x[0] if x.ndim > 1 else x for x in inputs]
    inputs = [engine.Mat(numpy.ascontiguousarray(x.astype(numpy.int32) if x.dtype == numpy.int64 else x)).clone() for x in inputs]
    names = sorted(net.input_names()), sorted(net.output_names())
    if len(names[0]) != len(inputs):
        raise ValueError(f"pnnx converts it to {len(names[0])} inputs, not {len(inputs)}")
    outputs = []

    def run():
        outputs.clear()
        extractor = net.create_extractor()
        for name, value in zip(names[0], inputs):
            extractor.input(name, value)
        for name in names[1]:
            failed, value = extractor.extract(name)
            if failed:
                raise ValueError(f"its run ends with {failed}")
            outputs.append(value)

    return run, lambda: [numpy.array(value) for value in outputs], engine.__version__


ENGINES = {"onnxruntime": onnxruntime, "openvino": openvino, "ncnn": ncnn}


def is_made(file, source):
    return file.exists() and file.stat().st_mtime >= source.stat().st_mtime


def prepare(folder):
    """{"outputs": how many, "left_out": {engine: why}}"""
    left_out = {}
    if (folder / "xnnpack_int8.bpte").exists() and not is_made(pathlib.Path(graph(folder, "int8")), folder / "onnx.onnx"):
        quantize(folder)
    try:
        if not is_made(folder / "ncnn" / "net.bin", folder / "torchscript.pt"):
            convert(folder)
    except (OSError, ValueError, subprocess.TimeoutExpired) as failure:
        left_out["ncnn"] = str(failure)
    return {"outputs": len(arrays(folder, "output")), "left_out": left_out}


def run(engine, folder, kind, threads, n):
    once, outputs, version = ENGINES[engine](folder, kind, threads)
    for _ in range(WARM_UP):
        once()
    error = error_of(folder, outputs())
    times = []
    for _ in range(n):
        began = time.perf_counter()
        once()
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return {"p50_ms": times[len(times) // 2], "error": error, "version": version}


def main(what, *args):
    if what == "prepare":
        return prepare(pathlib.Path(args[0]))
    if what == "run":
        return run(args[0], pathlib.Path(args[1]), args[2], int(args[3]), int(args[4]))
    return {"error": error_of(pathlib.Path(args[0]), [numpy.load(file) for file in args[1:]])}


if __name__ == "__main__":
    # Engines write to the standard output, too.
    result, out = None, os.dup(1)
    os.dup2(2, 1)
    try:
        result = main(*sys.argv[1:])
    except ValueError as failure:
        result = {"failure": str(failure)}
    os.write(out, json.dumps(result).encode())
