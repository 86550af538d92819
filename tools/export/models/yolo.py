"""YOLO detectors: the architectures of the package ultralytics with random weights (it has the real ones from
elsewhere only). The answer has 84 numbers for each of 2,100 places: a box and 80 classes."""

import torch

from fixture import Fixture
from models.inputs import picture


def build(architecture):
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(0)
    module = DetectionModel(architecture, verbose=False).fuse(verbose=False)
    head = module.model[-1]
    head.export, head.format = True, "executorch"
    return Fixture.of(module, (picture("chelsea.png", 320, 0, 1),))


def yolo11n():
    return build("yolo11n.yaml")


def yolov8n():
    return build("yolov8n.yaml")
