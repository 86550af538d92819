# SPDX-License-Identifier: BSD-3-Clause
"""The table of models that can be exported.

A model is one line here and one file in models/, whose build() returns a fixture.Fixture. The table is read without
PyTorch, so --list and the tests do not need it.

`backends` are exported by --all, and by --model without --backends; the command line may name any other one of
backends.py. `path` is the path of the files below --out, with {backend} in it; `names` has the files with another path.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Model:
    name: str
    about: str
    build: str  # FILE:FUNCTION in models/
    backends: tuple
    path: str = ""
    names: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)  # what the function is called with

    def file(self, backend):
        """Where the program for @backend goes, below --out and without its suffix."""
        return self.names.get(backend, (self.path or self.name + "/{backend}").format(backend=backend))


CPU = ("portable", "xnnpack")

MODELS = (
    Model("efficientnet_lite0", "image classifier, ImageNet weights", "efficientnet_lite0:build", CPU + ("xnnpack_int8", "vulkan_fp16")),
    Model("minilm", "all-MiniLM-L6-v2 sentence embedding, its weights", "minilm:build", ("xnnpack_qd8",)),
    Model("silero_vad", "voice activity detector with state, its weights", "silero_vad:build", CPU),
    Model("yolo11n", "detector, random weights", "yolo:yolo11n", ("xnnpack",), "yolo/yolo11n_{backend}"),
    Model("yolov8n", "detector, random weights", "yolo:yolov8n", ("xnnpack", "xnnpack+vulkan"), "yolo/yolov8n_{backend}"),
    Model("mobilenet_v2", "image classifier, random weights", "mobilenet:v2",
          ("vulkan_xnq8", "openvino", "ethos-u55-128", "ethos-u65-256"),
          names={"vulkan_xnq8": "vulkan/mv2_xnq8", "openvino": "npu/openvino_mv2",
                 "ethos-u55-128": "npu/ethos-u55-128_mv2", "ethos-u65-256": "npu/ethos-u65-256_mv2"}),
    Model("mobilenet_v3_small", "image classifier, random weights", "mobilenet:v3_small",
          CPU + ("xnnpack_int8", "vulkan", "openvino", "xnnpack+vulkan")),
    Model("encoder_dynamic", "text encoder of any length from 2 to 256, random weights", "encoders:dynamic", CPU,
          "programs/encoder_dynamic_{backend}"),
    Model("llama_tiny", "decoder with a key-value cache, random weights", "llama_tiny:build", CPU + ("vulkan", "vulkan_8da4w"),
          "programs/llama_tiny_{backend}",
          {"vulkan": "vulkan/llama_tiny_vulkan_fp32", "vulkan_8da4w": "vulkan/llama_tiny_vulkan_8da4w"}),
    Model("decoder", "attention with caches of ExecuTorch's extension/llm, random weights", "decoder:build", ("portable",),
          "programs/decoder_{backend}"),
    Model("two_methods_cond", "two methods, one with a branch", "programs:two_methods_cond", ("portable",), "programs/two_methods_cond_{backend}",
          {"portable": "programs/two_methods_cond"}),
    Model("shared_caches", "methods that share their mutable buffers", "programs:shared_caches", ("portable",), "programs/shared_caches_{backend}",
          {"portable": "programs/shared_caches"}),
    Model("constants", "methods that are one string or number", "programs:constants", ("portable",), "programs/constants_{backend}"),
    Model("gelu", "one GELU", "programs:gelu", ("xnnpack",), "programs/gelu_{backend}"),
    Model("left_out", "arguments that the exporter leaves out", "programs:left_out", ("portable",), "programs/left_out_{backend}"),
    Model("numbers", "outputs that are numbers", "programs:counted", ("portable",), "programs/numbers_{backend}"),
    Model("data_first", "a delegate's weights in a .ptd file", "programs:data_first", ("xnnpack",), "programs/data_{backend}/first/model"),
    Model("data_second", "some of the same weights", "programs:data_second", ("xnnpack",), "programs/data_{backend}/second/model"),
    Model("external", "its weights in a .ptd file", "programs:external", CPU, "programs/external_{backend}/mlp"),
    Model("small", "convolutions small enough to read", "programs:small",
          ("vulkan", "vulkan_fp16", "vulkan_xnq8", "openvino", "ethos-u55-128", "ethos-u65-256", "ethos-u85-256",
           "vgf_fp", "vgf_int", "qnn_sm8650", "coreml", "cadence"),
          names={"vulkan": "vulkan/small", "vulkan_fp16": "vulkan/small_fp16", "vulkan_xnq8": "vulkan/small_xnq8",
                 "openvino": "npu/openvino_small", "ethos-u55-128": "npu/ethos-u55-128_small",
                 "ethos-u65-256": "npu/ethos-u65-256_small", "ethos-u85-256": "npu/ethos-u85-256_small",
                 "vgf_fp": "npu/vgf_small_fp", "vgf_int": "npu/vgf_small_int",
                 "qnn_sm8650": "npu/qnn_small_sm8650", "coreml": "npu/small_coreml",
                 "cadence": "npu/small_cadence"}),
    Model("mlp", "three linear layers", "programs:mlp", ("vulkan", "vulkan_fp16"),
          names={"vulkan": "vulkan/mlp", "vulkan_fp16": "vulkan/mlp_fp16"}),
    Model("mlp_wide", "two linear layers, wide enough for groups of weights", "programs:mlp_wide",
          ("vulkan_4w", "vulkan_8da4w", "vulkan_q8w", "vulkan_xnq8"),
          names={"vulkan_4w": "vulkan/mlp_4w", "vulkan_8da4w": "vulkan/mlp_8da4w", "vulkan_q8w": "vulkan/mlp_vkq8w",
                 "vulkan_xnq8": "vulkan/mlp_xnq8"}),
    Model("enc2", "text encoder with a mask, random weights", "encoders:masked", ("vulkan", "vulkan_4w", "vulkan_8da4w", "vulkan_xnq8"),
          names={"vulkan": "vulkan/enc2", "vulkan_4w": "vulkan/enc2_4w", "vulkan_8da4w": "vulkan/enc2_8da4w",
                 "vulkan_xnq8": "vulkan/enc2_xnq8"}),
    Model("lstm", "one LSTM layer", "programs:lstm", ("vulkan",), names={"vulkan": "vulkan/lstm"}),
    Model("vit", "vision transformer, random weights", "encoders:vit", ("vulkan",), names={"vulkan": "vulkan/vit"}),
    Model("mixed", "delegates of two backends and kernels in one program", "encoders:mixed", ("xnnpack_conv+vulkan",),
          names={"xnnpack_conv+vulkan": "vulkan/mixed_vulkan_xnnpack"}),
)



def seen(name, build, *backends, **options):
    """A model of the survey."""
    return Model(name, "", build, backends or CPU, "survey/" + name + "/{backend}/model", {}, options)


# Programs of many kinds, to see that all of them run: exported by --survey, with what the original answers.
SURVEY = (
    seen("resnet18", "survey_vision:torchvision", "xnnpack", "xnnpack_int8", arch="resnet18"),
    seen("mobilenet_v2_96", "survey_vision:torchvision", "portable", "xnnpack", "xnnpack_int8", "xnnpack_int8_tensor", "portable_int8", arch="mobilenet_v2"),
    seen("shufflenet", "survey_vision:torchvision", "xnnpack", "xnnpack_int8", arch="shufflenet_v2_x0_5"),
    seen("squeezenet", "survey_vision:torchvision", "portable", "xnnpack_int8", arch="squeezenet1_1"),
    seen("densenet", "survey_vision:torchvision", "xnnpack", arch="densenet121", size=64),
    seen("efficientnet_b0", "survey_vision:torchvision", "xnnpack", "xnnpack_int8", arch="efficientnet_b0"),
    seen("mnasnet", "survey_vision:torchvision", "xnnpack", arch="mnasnet0_5"),
    seen("regnet", "survey_vision:torchvision", "xnnpack", "xnnpack_per_op", arch="regnet_x_400mf"),
    seen("googlenet", "survey_vision:torchvision", "xnnpack", arch="googlenet", aux_logits=False, init_weights=False),
    seen("alexnet", "survey_vision:torchvision", "xnnpack_qd8", arch="alexnet", size=64, num_classes=20),
    seen("mobilenet_v3_last", "survey_vision:torchvision", "portable", "xnnpack", arch="mobilenet_v3_small", last=True),
    seen("mobilenet_v3_fp16", "survey_vision:halved", "portable", "xnnpack", arch="mobilenet_v3_small", kind="float16", size=64),
    seen("mobilenet_v3_bf16", "survey_vision:halved", "portable", arch="mobilenet_v3_small", kind="bfloat16", size=64),
    seen("resnet18_dynamic", "survey_vision:any_batch_and_size", "xnnpack", arch="resnet18"),
    seen("mobilenet_v3_dynamic", "survey_vision:any_batch_and_size", "xnnpack", arch="mobilenet_v3_small"),
    seen("vit_small", "survey_vision:vision_transformer", "portable", "xnnpack", "xnnpack_qd8", "xnnpack_int8"),
    seen("swin", "survey_vision:swin", "portable", "xnnpack"),
    seen("convnext", "survey_vision:convnext", "xnnpack", "xnnpack_int8"),
    seen("lraspp", "survey_vision:segmentation", "xnnpack", arch="lraspp_mobilenet_v3_large"),
    seen("deeplab", "survey_vision:segmentation", "xnnpack", arch="deeplabv3_mobilenet_v3_large"),
    seen("ssdlite", "survey_vision:ssdlite", "xnnpack"),
    seen("upscale_shuffle", "survey_vision:upscale", *CPU, "xnnpack_int8", kind="shuffle"),
    seen("upscale_bilinear", "survey_vision:upscale", kind="bilinear"),
    seen("upscale_nearest", "survey_vision:upscale", *CPU, "xnnpack_int8", kind="nearest"),
    seen("upscale_transposed", "survey_vision:upscale", *CPU, "xnnpack_int8", kind="transposed"),
    seen("unet", "survey_vision:unet", *CPU, "xnnpack_int8"),
    seen("boxes", "survey_vision:boxes"),
    seen("depth", "survey_vision:depth"),
    seen("bert", "survey_text:bert", *CPU, "xnnpack_qd8", "xnnpack_8da4w", "xnnpack_per_op"),
    seen("bert_dynamic", "survey_text:bert_dynamic", *CPU, "xnnpack_qd8", norm_first=True),
    seen("t5", "survey_text:t5"),
    seen("gpt", "survey_text:gpt", *CPU, "xnnpack_qd8", "xnnpack_8da4w", "xnnpack_8da4w_channel"),
    seen("gpt_step", "survey_text:gpt", *CPU, "xnnpack_8da4w", dynamic=False),
    seen("gpt_fp16", "survey_text:gpt", *CPU, dtype="float16"),
    seen("gpt_bf16", "survey_text:gpt", *CPU, dtype="bfloat16"),
    seen("gpt_two_methods", "survey_text:gpt_two_methods"),
    seen("llama_8da4w", "survey_text:llama", "portable_int8", "xnnpack_qd8", "xnnpack_8da4w", "xnnpack_8da4w_channel"),
    seen("encoder_dynamic_64", "survey_text:encoder", *CPU, "xnnpack_qd8", "xnnpack_8da4w"),
    seen("encoder_masked", "survey_text:masked", *CPU, "xnnpack_int8"),
    seen("beam", "survey_text:beam"),
    seen("lstm_plain", "survey_audio:recurrent", kind="LSTM"),
    seen("lstm_both_ways", "survey_audio:recurrent", kind="LSTM", num_layers=2, bidirectional=True),
    seen("gru", "survey_audio:recurrent", *CPU, "xnnpack_qd8", kind="GRU", num_layers=2),
    seen("rnn", "survey_audio:recurrent", kind="RNN", nonlinearity="relu"),
    seen("wav2letter", "survey_audio:wav2letter", *CPU, "xnnpack_int8"),
    seen("wav2letter_dynamic", "survey_audio:wav2letter", dynamic=True),
    seen("tcn", "survey_audio:tcn", *CPU, "xnnpack_int8"),
    seen("stream", "survey_audio:stream", *CPU, "xnnpack_qd8"),
    seen("spectrum", "survey_audio:spectrum"),
    seen("conformer", "survey_audio:conformer", *CPU, "xnnpack_qd8", "xnnpack_int8"),
    seen("conformer_dynamic", "survey_audio:conformer", dynamic=True),
    seen("net", "survey_forms:net", *CPU, "xnnpack_int8", "xnnpack_int8_tensor", "portable_int8", "xnnpack_per_op", "xnnpack_conv"),
    seen("net_last", "survey_forms:channels_last", "portable"),
    seen("last", "survey_forms:last", "portable"),
    seen("net_no_dim_order", "survey_forms:no_dim_order"),
    seen("net_inline_delegates", "survey_forms:emitted", "xnnpack", extract_delegate_segments=False),
    seen("net_aligned", "survey_forms:emitted", "xnnpack", segment_alignment=4096, delegate_alignment=256),
    seen("net_tight", "survey_forms:emitted", "portable", "xnnpack", segment_alignment=16, constant_tensor_alignment=64),
    seen("net_views", "survey_forms:emitted", remove_view_copy=False),
    seen("net_symbolic", "survey_forms:emitted", dynamic_memory_planning_mode=1),
    seen("net_inputs_elsewhere", "survey_forms:planned", alloc_graph_input=False),
    seen("net_ends_elsewhere", "survey_forms:planned", alloc_graph_input=False, alloc_graph_output=False),
    seen("net_aligned_plan", "survey_forms:planned", alignment=64),
    seen("net_naive", "survey_forms:naively"),
    seen("net_two_arenas", "survey_forms:two_arenas"),
    seen("net_external", "survey_forms:external"),
    seen("net_external_several", "survey_forms:external_several"),
    seen("fp16", "survey_forms:halves", kind="float16"),
    seen("bf16", "survey_forms:halves", kind="bfloat16"),
    seen("layers_bf16", "survey_forms:layers_bf16", "xnnpack_bf16"),
    seen("constant", "survey_forms:constant"),
    seen("same", "survey_forms:same"),
    seen("nested", "survey_forms:nested"),
    seen("scalars", "survey_forms:scalars"),
    seen("branches", "survey_forms:branches", "portable"),
    seen("mapped", "survey_forms:mapped", "portable"),
    seen("scanned", "survey_forms:scanned"),
    seen("counter", "survey_forms:counter", "portable"),
    seen("counter_elsewhere", "survey_forms:counter_elsewhere", "portable"),
    seen("shared_state", "survey_forms:shared_state"),
    seen("in_place", "survey_forms:in_place"),
    seen("twice", "survey_forms:twice", *CPU, "xnnpack_qd8", "xnnpack_per_op"),
    seen("shapes", "survey_forms:shapes"),
    seen("data", "survey_forms:data"),
    seen("selected", "survey_forms:selected", "portable"),
    seen("types", "survey_forms:types"),
    seen("maths", "survey_forms:maths"),
    seen("moves", "survey_forms:moves"),
    seen("joint", "survey_forms:joint", "portable"),
    seen("embedding_8", "survey_forms:fused", "portable", bits=8),
    seen("embedding_4", "survey_forms:fused", *CPU, bits=4),
    seen("embedding_2", "survey_forms:fused", "portable", bits=2),
)


def batch(name, build, *backends, of=8):
    """A model that takes @of inputs at once."""
    return Model(f"{name}_b{of}", "", build, backends, f"batch/{name}_b{of}_{{backend}}", {}, {"batch": of})


# What `bench.py --only batching` compares: exported by --model only. Those of one input are here for the backends that MODELS lacks.
BATCHES = (
    batch("efficientnet_lite0", "efficientnet_lite0:build", "xnnpack", "xnnpack_int8", "vulkan_fp16"),
    batch("minilm", "minilm:build", "xnnpack_qd8", "vulkan"),
    batch("minilm", "minilm:build", "vulkan", of=1),
    batch("yolo11n", "yolo:yolo11n", "xnnpack", "vulkan"),
    batch("yolo11n", "yolo:yolo11n", "vulkan", of=1),
)

def peer(name, build, *backends, **options):
    """A network that other engines run, too."""
    return Model("peer_" + name, "", build, ("xnnpack", "onnx", "torchscript") + backends, f"peers/{name}/{{backend}}", {}, options)


# What tests/bench/peers.py compares: exported by --peers.
PEERS = (
    peer("mobilenet_v2", "mobilenet:v2", "xnnpack_int8"),
    peer("mobilenet_v3_small", "mobilenet:v3_small", "xnnpack_int8"),
    peer("efficientnet_lite0", "efficientnet_lite0:build", "xnnpack_int8"),
    peer("resnet18", "survey_vision:torchvision", "xnnpack_int8", arch="resnet18", size=224),
    peer("yolo11n", "yolo:yolo11n"),
    peer("vit", "survey_vision:vision_transformer", size=224, num_layers=4, num_heads=6, hidden_dim=384, mlp_dim=1536),
    peer("minilm", "minilm:build"),
    peer("bert", "encoders:masked", length=128, width=256, n_layers=4),
    peer("lstm", "survey_audio:recurrent", kind="LSTM", shape=(1, 50, 80), width=128),
    peer("gru", "survey_audio:recurrent", kind="GRU", shape=(1, 50, 80), width=128),
    peer("llama_step", "llama_step:build"),
)

BY_NAME = {model.name: model for model in MODELS + SURVEY + BATCHES + PEERS}
