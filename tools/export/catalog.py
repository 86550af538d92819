"""What can be exported: the table of models.

A model is one line here and one file in models/, whose build() returns a fixture.Fixture. This table is read
without PyTorch, so that --list and the tests need none.

`backends` are those that --all exports and that --model takes without --backends; any other of backends.py may be
named on the command line. `path` is where the files go below --out, with {backend} in it; `names` lists the files
whose path is another.
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
    Model("two_methods_cond", "two methods, one with a branch", "programs:two_methods_cond", ("portable",), "programs/two_methods_cond_{backend}",
          {"portable": "programs/two_methods_cond"}),
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

BY_NAME = {model.name: model for model in MODELS}
