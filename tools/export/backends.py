# SPDX-License-Identifier: BSD-3-Clause
"""The backends: what each one adds to an export.

A backend is one function here that returns a Recipe: its partitioner and, if it has them, a quantizer or a change of the
module before it is traced. Two names joined by +, `xnnpack+vulkan`, partition the program in that order: the second one
takes operators that the first one left, and kernels run the rest.

Vendors' packages are imported inside the functions. So listing the backends needs none of them, and a backend whose
package is missing or broken fails alone. If a backend needs an SDK that no package contains, its function raises
Unavailable with a sentence that names the SDK.
"""

from dataclasses import dataclass, field


class Unavailable(Exception):
    pass


@dataclass
class Recipe:
    partitioners: list = field(default_factory=list)  # in the order in which they choose
    quantizer: object = None  # static or dynamic quantization of the traced program
    transform: object = None  # changes the module in place, before it is traced
    lower: object = None  # (module, inputs, quantizer) -> (program manager, reference); in place of the usual way
    write: object = None  # (fixture, path without suffix) -> the file that it wrote; in place of a program


BACKENDS = {}  # name -> (function, what it is)
ALIASES = {"ethos-u": "ethos-u55-128", "vgf": "vgf_fp", "qnn": "qnn_sm8650"}


def backend(name, about):
    def add(function):
        BACKENDS[name] = (function, about)
        return function

    return add


def parts(name):
    """The backends that NAME consists of, in their order; KeyError with the unknown one."""
    found = [ALIASES.get(part, part) for part in name.split("+")]
    for part in found:
        if part not in BACKENDS:
            raise KeyError(part)
    return found


def canonical(name):
    return "+".join(parts(name))


def recipe(name):
    """The recipe of a backend, or of several with + between them."""
    recipes = [BACKENDS[part][0]() for part in parts(name)]
    if len(recipes) == 1:
        return recipes[0]
    joined = Recipe()
    for part, one in zip(parts(name), recipes):
        if one.lower or one.write:
            raise Unavailable(f"{part} lowers whole programs in a way of its own, so it cannot share one with others")
        joined.partitioners += [after_another(p) for p in one.partitioners] if joined.partitioners else one.partitioners
        for what in ("quantizer", "transform"):
            if getattr(one, what):
                if getattr(joined, what):
                    raise Unavailable(f"two of {name} bring a {what}, and only one can be applied")
                setattr(joined, what, getattr(one, what))
    return joined


def after_another(partitioner):
    """The same partitioner, for a program of which another has taken parts. Often only constants are left that its
    delegates want: a part without any input is nothing to compute, and compilers stumble over it, so it stays with the
    kernels."""

    def partition(program, choose=partitioner.partition):
        result = choose(program)
        nodes = [node for node in result.tagged_exported_program.graph.nodes if "delegation_tag" in node.meta]
        fed = {node.meta["delegation_tag"] for node in nodes for source in node.all_input_nodes
               if source.meta.get("delegation_tag") != node.meta["delegation_tag"]}
        for node in nodes:
            if node.meta["delegation_tag"] not in fed:
                result.partition_tags.pop(node.meta.pop("delegation_tag"), None)
        return result

    partitioner.partition = partition
    return partitioner


@backend("portable", "no delegate: kernels only")
def portable():
    return Recipe()


# --- XNNPACK ------------------------------------------------------------------


def xnnpack_quantizer(**config):
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as q

    return q.XNNPACKQuantizer().set_global(q.get_symmetric_quantization_config(**config))


@backend("xnnpack", "XNNPACK, fp32")
def xnnpack():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return Recipe([XnnpackPartitioner()])


@backend("xnnpack_int8", "XNNPACK, static int8, weights per channel")
def xnnpack_int8():
    return Recipe(xnnpack().partitioners, xnnpack_quantizer(is_per_channel=True))


@backend("xnnpack_qd8", "XNNPACK, linear layers int8 with activations quantized by row at run time")
def xnnpack_qd8():
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    dynamic = XnnpackPartitioner(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT, per_op_mode=True)
    return Recipe([dynamic, XnnpackPartitioner()], xnnpack_quantizer(is_per_channel=True, is_dynamic=True))


@backend("xnnpack_int8_tensor", "XNNPACK, static int8, weights per tensor")
def xnnpack_int8_tensor():
    return Recipe(xnnpack().partitioners, xnnpack_quantizer(is_per_channel=False))


@backend("portable_int8", "kernels only, static int8: quantized and back between them")
def portable_int8():
    import executorch.kernels.quantized  # noqa: F401  declares the operators that quantize

    return Recipe(quantizer=xnnpack_quantizer(is_per_channel=True))


@backend("xnnpack_8da4w", "XNNPACK, linear layers with 4-bit weights in groups, activations quantized by row at run time")
def xnnpack_8da4w():
    return Recipe(xnnpack_qd8().partitioners, transform=torchao(four_bits_dynamic))


@backend("xnnpack_8da4w_channel", "the same with one scale for each channel")
def xnnpack_8da4w_channel():
    return Recipe(xnnpack_qd8().partitioners, transform=torchao(four_bits_dynamic_channel))


@backend("xnnpack_bf16", "XNNPACK, also for bf16, which is left to kernels otherwise")
def xnnpack_bf16():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return Recipe([XnnpackPartitioner(enable_bf16=True)])


@backend("xnnpack_per_op", "XNNPACK, a delegate for each operator")
def xnnpack_per_op():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return Recipe([XnnpackPartitioner(per_op_mode=True)])


@backend("xnnpack_conv", "XNNPACK for convolutions only; to leave the rest to another, as in xnnpack_conv+vulkan")
def xnnpack_conv():
    from executorch.backends.xnnpack.partition.config.gemm_configs import ConvolutionConfig
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return Recipe([XnnpackPartitioner(configs=[ConvolutionConfig])])


# --- Vulkan -------------------------------------------------------------------


def vulkan_partitioner(**options):
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return VulkanPartitioner(options)


def torchao(config):
    """A transform that replaces the weights of linear layers by torchao's."""

    def apply(module):
        from torchao.quantization import quantize_
        from torchao.utils import unwrap_tensor_subclass

        quantize_(module, config())
        unwrap_tensor_subclass(module)

    return apply


def four_bits():
    from torchao.quantization import IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerGroup
    import torch

    return IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))


def four_bits_dynamic():
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig
    from torchao.quantization.granularity import PerGroup
    import torch

    return Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))


def four_bits_dynamic_channel():
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig
    from torchao.quantization.granularity import PerAxis
    import torch

    return Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerAxis(0))


@backend("vulkan", "Vulkan, fp32")
def vulkan():
    return Recipe([vulkan_partitioner()])


@backend("vulkan_fp16", "Vulkan, computed in fp16")
def vulkan_fp16():
    return Recipe([vulkan_partitioner(force_fp16=True)])


@backend("vulkan_4w", "Vulkan, 4-bit weights in groups of 32")
def vulkan_4w():
    return Recipe([vulkan_partitioner()], transform=torchao(four_bits))


@backend("vulkan_8da4w", "Vulkan, 4-bit weights, activations quantized by row at run time")
def vulkan_8da4w():
    return Recipe([vulkan_partitioner()], transform=torchao(four_bits_dynamic))


@backend("vulkan_q8w", "Vulkan, 8-bit weights, with Vulkan's own quantizer")
def vulkan_q8w():
    from executorch.backends.vulkan.quantizer import vulkan_quantizer as q

    config = q.get_symmetric_quantization_config(is_dynamic=False, weight_bits=8)
    return Recipe([vulkan_partitioner()], q.VulkanQuantizer().set_global(config))


@backend("vulkan_xnq8", "Vulkan, static int8, with XNNPACK's quantizer")
def vulkan_xnq8():
    return Recipe([vulkan_partitioner()], xnnpack_quantizer(is_per_channel=True))


# --- OpenVINO -----------------------------------------------------------------


@backend("openvino", "OpenVINO, compiled for the CPU device")
def openvino():
    from executorch.backends.openvino.partitioner import OpenvinoPartitioner
    from executorch.exir.backend.backend_details import CompileSpec

    return Recipe([OpenvinoPartitioner([CompileSpec("device", b"CPU")])])


# --- Arm: Ethos-U and VGF -------------------------------------------------------


def ethos_u(target):
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config

    spec = EthosUCompileSpec(target)
    quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
    return Recipe([EthosUPartitioner(spec)], quantizer)


for target in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256"):
    backend(target, f"Arm {target.replace('ethos-u', 'Ethos-U')}, int8, compiled by Vela")(lambda target=target: ethos_u(target))


@backend("vgf_fp", "VGF (ML SDK for Vulkan), fp32")
def vgf_fp():
    from executorch.backends.arm.vgf import VgfCompileSpec, VgfPartitioner

    return Recipe([VgfPartitioner(VgfCompileSpec("TOSA-1.0+FP"))])


@backend("vgf_int", "VGF (ML SDK for Vulkan), int8")
def vgf_int():
    from executorch.backends.arm.quantizer import VgfQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.vgf import VgfCompileSpec, VgfPartitioner

    spec = VgfCompileSpec("TOSA-1.0+INT")
    quantizer = VgfQuantizer(spec).set_global(get_symmetric_quantization_config())
    return Recipe([VgfPartitioner(spec)], quantizer)


# --- others -------------------------------------------------------------------


@backend("coreml", "Core ML")
def coreml():
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner

    return Recipe([CoreMLPartitioner()])


@backend("cadence", "Cadence DSP kernels, int8")
def cadence():
    from executorch.backends.cadence.aot.quantizer.quantizer import CadenceDefaultQuantizer

    return Recipe(quantizer=CadenceDefaultQuantizer(), lower=lower_cadence)


def lower_cadence(module, inputs, quantizer):
    import torch
    from executorch.backends.cadence.aot import compiler

    prepared = compiler.prepare_pt2(module, inputs, quantizer)
    prepared(*inputs)
    converted = compiler.convert_pt2(prepared)
    program = compiler.apply_pre_edge_transform_passes(torch.export.export(converted, inputs, strict=True), quantizer)
    return compiler._lower_ep_to_cadence(program).to_executorch(), converted


@backend("qnn_sm8650", "Qualcomm AI Engine Direct, HTP in fp16, for the SM8650")
def qnn_sm8650():
    import os

    if not os.environ.get("QNN_SDK_ROOT"):
        raise Unavailable("it needs Qualcomm's AI Engine Direct SDK, which is not among the packages installed here: "
                          "set QNN_SDK_ROOT to its folder, below this checkout or /tmp")
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils import utils as qnn

    specs = qnn.generate_qnn_executorch_compiler_spec(QcomChipset.SM8650, qnn.generate_htp_compiler_spec(use_fp16=True))

    def lower(module, inputs, quantizer):
        return qnn.to_edge_transform_and_lower_to_qnn(module, inputs, specs).to_executorch(), module

    return Recipe(lower=lower)


# --- other engines --------------------------------------------------------------


@backend("onnx", "a graph for other engines, with the inputs and PyTorch's outputs in an .npz; not a program")
def onnx():
    return Recipe(write=write_onnx)


@backend("torchscript", "the same as TorchScript, which ncnn's converter reads; not a program")
def torchscript():
    return Recipe(write=write_torchscript)


def write_onnx(fixture, path):
    import copy

    import numpy
    import torch

    method = fixture.methods["forward"]
    inputs = method.cases[0]
    outputs = torch.utils._pytree.tree_leaves(copy.deepcopy(method.module)(*inputs))
    arrays = {f"input{i}": value for i, value in enumerate(inputs)} | {f"output{i}": value for i, value in enumerate(outputs)}
    for i, values in enumerate(method.calibration or ()):
        arrays |= {f"calibration{i}_input{j}": value for j, value in enumerate(values)}
    file = path.with_suffix(".onnx")
    torch.onnx.export(method.module, inputs, str(file), dynamo=True, external_data=False, verbose=False,
                      input_names=[f"input{i}" for i in range(len(inputs))])
    numpy.savez(path.with_suffix(".npz"), **{name: value.numpy() for name, value in arrays.items()})
    return file


def write_torchscript(fixture, path):
    import torch

    method = fixture.methods["forward"]
    file = path.with_suffix(".pt")
    torch.jit.trace(method.module, method.cases[0], check_trace=False).save(str(file))
    return file
