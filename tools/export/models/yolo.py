# SPDX-License-Identifier: BSD-3-Clause
"""YOLO detectors: architectures of the package ultralytics with random weights (ultralytics downloads the trained ones). The
output has 84 numbers for each of 2,100 anchors: a box and 80 classes."""

import torch

from fixture import Fixture
from models.inputs import picture, pictures
from models.weights import settle


def build(architecture, batch=1):
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(0)
    shots = [picture(name, 320, 0, 1) for name in pictures]
    shot = torch.cat([shots[0]] * batch)
    module = settle(DetectionModel(architecture, verbose=False), shots).fuse(verbose=False)
    module.model[-1].export = True
    with torch.no_grad():
        module.eval()(shot)  # the places that the answers are for are made once, and kept as constants
    return Fixture.of(module, (shot,))


def yolo11n(batch=1):
    return build("yolo11n.yaml", batch)


def yolov8n():
    return build("yolov8n.yaml")
