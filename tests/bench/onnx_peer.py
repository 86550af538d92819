# SPDX-License-Identifier: BSD-3-Clause
"""ONNX Runtime beside the daemon, for neighbours.py: EfficientNet-Lite0 as an ONNX graph, and its times.

    PYTHON onnx_peer.py make FILE                              write the graph
    PYTHON onnx_peer.py run FILE THREADS SPINNING SECONDS N    time it: JSON with p50_ms, p99_ms, max_ms, n

PYTHON is that of an environment with onnxruntime and onnx (neighbours.py makes one). The graph has the layers, sizes
and activations of shared/models/efficientnet_lite0 and random weights: times of dense fp32 layers do not depend on the
values.
"""
import json
import sys
import time

import numpy

# Kernel, stride, expansion, channels, repeats: EfficientNet-B0 without squeeze-and-excitation, with ReLU6.
BLOCKS = [(3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 4),
          (3, 1, 6, 320, 1)]


def make(path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights, random = [], [], numpy.random.default_rng(1)

    def constant(values):
        weights.append(numpy_helper.from_array(values.astype(numpy.float32), f"w{len(weights)}"))
        return weights[-1].name

    def add(op, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def conv(x, n_in, n_out, kernel, stride=1, group=1, is_clamped=True):
        n = n_in // group * kernel * kernel
        w = constant(random.standard_normal((n_out, n_in // group, kernel, kernel)) * (2 / n) ** 0.5)
        before = max(kernel - stride, 0) // 2
        pads = [before, before, max(kernel - stride, 0) - before, max(kernel - stride, 0) - before]
        x = add("Conv", [x, w, constant(numpy.zeros(n_out))], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads,
                group=group)
        return add("Clip", [x, low, high]) if is_clamped else x

    low, high = constant(numpy.array(0)), constant(numpy.array(6))
    x, n = conv("x", 3, 32, 3, 2), 32
    for kernel, first_stride, expansion, n_out, repeats in BLOCKS:
        for i in range(repeats):
            stride, wide = first_stride if i == 0 else 1, n * expansion
            y = conv(x, n, wide, 1) if expansion > 1 else x
            y = conv(conv(y, wide, wide, kernel, stride, wide), wide, n_out, 1, is_clamped=False)
            x = add("Add", [x, y]) if i else y
            n = n_out
    x = add("Flatten", [add("GlobalAveragePool", [conv(x, n, 1280, 1)])])
    out = add("Gemm", [x, constant(random.standard_normal((1280, 1000)) / 36), constant(numpy.zeros(1000))])
    graph = helper.make_graph(nodes, "efficientnet_lite0",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
                              [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 1000])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {out: "scores"})  # GStreamer's onnxinference wants an id for each output
    onnx.checker.check_model(model)
    onnx.save(model, path)


def run(path, threads, spinning, seconds, n):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(spinning))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = numpy.random.default_rng(2).standard_normal((1, 3, 224, 224)).astype(numpy.float32)
    for _ in range(5):
        session.run(None, {"x": x})
    times, end = [], time.monotonic() + seconds
    while len(times) < n and time.monotonic() < end:
        began = time.perf_counter()
        session.run(None, {"x": x})
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    print(json.dumps({"p50_ms": times[len(times) // 2], "p99_ms": times[min(len(times) - 1, len(times) * 99 // 100)],
                      "max_ms": times[-1], "n": len(times)}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        run(sys.argv[2], *(int(a) for a in sys.argv[3:]))
