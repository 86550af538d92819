# SPDX-License-Identifier: BSD-3-Clause
"""MobileNets of torchvision with random weights (torchvision downloads the trained ones)."""

import torch

from fixture import Fixture
from models.inputs import picture, pictures
from models.weights import settle


def build(function):
    torch.manual_seed(0)
    shots = [(picture(name, 224, 0.45, 0.225),) for name in pictures]
    module = settle(function(weights=None), [shot for (shot,) in shots])
    return Fixture.of(module, shots[0], calibration=shots)


def v2():
    from torchvision.models import mobilenet_v2

    return build(mobilenet_v2)


def v3_small():
    from torchvision.models import mobilenet_v3_small

    return build(mobilenet_v3_small)
