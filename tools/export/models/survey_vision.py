# SPDX-License-Identifier: BSD-3-Clause
"""Vision for the survey: architectures of torchvision, small images, random weights."""

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture
from models.inputs import numbers, pictures, picture
from models.weights import settle


class First(nn.Module):
    """Of a module that answers a dictionary: one of its values."""

    def __init__(self, module, key):
        super().__init__()
        self.module, self.key = module, key

    def forward(self, x):
        return self.module(x)[self.key]


def shots(size, n=4):
    return [(picture(name, size, 0.45, 0.225),) for name in pictures[:n]]


def torchvision(arch, size=96, last=False, **options):
    import torchvision.models as models

    torch.manual_seed(0)
    inputs = shots(size)
    module = settle(getattr(models, arch)(weights=None, **options), [x for x, in inputs])
    if last:
        module = module.to(memory_format=torch.channels_last)
        inputs = [(x.to(memory_format=torch.channels_last),) for x, in inputs]
    return Fixture.of(module, *inputs[:2], calibration=inputs)


def halved(arch, kind, size=96):
    fixture = torchvision(arch, size)
    dtype = getattr(torch, kind)
    method = fixture.methods["forward"]
    method.module.to(dtype)
    method.cases = [(x.to(dtype),) for x, in method.cases]
    return fixture


def any_batch_and_size(arch):
    fixture = torchvision(arch, 96)
    batch, height, width = torch.export.Dim("batch", min=1, max=4), torch.export.Dim("height", min=2, max=8), torch.export.Dim("width", min=2, max=8)
    x = [numbers(2, 3, 96, 128), numbers(1, 3, 64, 256), numbers(4, 3, 256, 64), numbers(3, 3, 256, 256)]
    method = fixture.methods["forward"]
    method.cases = [(one,) for one in x]
    method.dynamic_shapes = ({0: batch, 2: 32 * height, 3: 32 * width},)
    return fixture


def vision_transformer(size=64, **options):
    from torchvision.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    options = {"num_layers": 3, "num_heads": 4, "hidden_dim": 64, "mlp_dim": 128, "num_classes": 20} | options
    module = VisionTransformer(image_size=size, patch_size=16, **options)
    nn.init.normal_(module.heads.head.weight)
    return Fixture.of(module, *shots(size)[:2], calibration=shots(size))


def swin():
    from torchvision.models.swin_transformer import SwinTransformer

    torch.manual_seed(0)
    module = SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[3, 6], window_size=[7, 7], num_classes=20)
    return Fixture.of(module, *shots(112)[:2], calibration=shots(112))


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    torch.manual_seed(0)
    module = ConvNeXt([CNBlockConfig(24, 48, 2), CNBlockConfig(48, 96, 2), CNBlockConfig(96, None, 2)], layer_scale=0.5, num_classes=20)
    return Fixture.of(module, *shots(96)[:2], calibration=shots(96))


def segmentation(arch, size=96):
    import torchvision.models.segmentation as models

    torch.manual_seed(0)
    inputs = shots(size)
    module = settle(getattr(models, arch)(weights=None, weights_backbone=None, num_classes=5), [x for x, in inputs])
    return Fixture.of(First(module, "out").eval(), inputs[0], calibration=inputs)


class Ssd(nn.Module):
    """SSDLite up to its boxes: what comes after them has loops over data."""

    def __init__(self):
        from torchvision.models.detection import ssdlite320_mobilenet_v3_large

        super().__init__()
        whole = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=11)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, x):
        answers = self.head(list(self.backbone(x).values()))
        return answers["bbox_regression"], answers["cls_logits"].softmax(-1)


def ssdlite():
    torch.manual_seed(0)
    inputs = shots(160)
    return Fixture.of(settle(Ssd(), [x for x, in inputs]), inputs[0], calibration=inputs)


class Upscale(nn.Module):
    """As EDSR: convolutions, a sum over many, and pixels from channels."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.head, self.body = nn.Conv2d(3, 16, 3, padding=1), nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.tail = nn.Conv2d(16, 12 if kind == "shuffle" else 3, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 16, 4, stride=2, padding=1, groups=4)

    def forward(self, x):
        y = self.head(x)
        for one in self.body:
            y = y + functional.leaky_relu(one(y), 0.1)
        if self.kind == "shuffle":
            return functional.pixel_shuffle(self.tail(y), 2).clamp(0, 1)
        if self.kind == "transposed":
            return torch.tanh(self.tail(self.up(y)))
        y = functional.interpolate(y, scale_factor=2.0, mode=self.kind, **({} if self.kind == "nearest" else {"align_corners": False}))
        return torch.sigmoid(self.tail(y))


def upscale(kind):
    torch.manual_seed(0)
    return Fixture.of(Upscale(kind), *shots(40)[:2], calibration=shots(40))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()

        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.InstanceNorm2d(b, affine=True), nn.Hardswish())

        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join2, self.join1, self.last = block(32, 16), block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(functional.max_pool2d(a, 2))
        y = self.middle(functional.avg_pool2d(b, 2))
        y = self.join2(torch.cat([self.up2(y), b], 1))
        y = self.join1(torch.cat([self.up1(y), a], 1))
        return self.last(y).argmax(1), self.last(y).softmax(1)


def unet():
    torch.manual_seed(0)
    return Fixture.of(Unet(), *shots(64)[:2], calibration=shots(64))


class Boxes(nn.Module):
    """What detectors do at their end: the best boxes of many, their corners, one class each, none that is dull."""

    def forward(self, boxes, scores):
        centre, size = boxes[..., :2], boxes[..., 2:].exp()
        corners = torch.cat([centre - size / 2, centre + size / 2], -1).clamp(0.0, 320.0)
        best, which = scores.sigmoid().max(-1)
        top, places = best.topk(10, dim=-1)
        chosen = corners.gather(1, places.unsqueeze(-1).expand(-1, -1, 4))
        area = (chosen[..., 2:] - chosen[..., :2]).prod(-1)
        meet = torch.minimum(chosen[:, :, None, 2:], chosen[:, None, :, 2:]) - torch.maximum(chosen[:, :, None, :2], chosen[:, None, :, :2])
        over = meet.clamp(min=0).prod(-1) / (area[:, :, None] + area[:, None, :]).clamp(min=1e-6)
        kept = torch.where((over > 0.5).triu(1).any(1), torch.zeros_like(top), top)
        return chosen, kept, which.gather(1, places), (kept > 0.5).sum(-1)


def boxes():
    return Fixture.of(Boxes(), *[(numbers(2, 50, 4, seed=seed) * 20 * torch.tensor([1, 1, 0.1, 0.1]) + 100 * torch.tensor([1, 1, 0.01, 0.01]), numbers(2, 50, 7, seed=seed + 9)) for seed in range(3)])


class Depth(nn.Module):
    """Points of a picture warped by a flow: grid_sample, meshgrid, padding of every kind, 3-D convolution."""

    def __init__(self):
        super().__init__()
        self.flow = nn.Conv2d(3, 2, 3)
        self.cube = nn.Conv3d(1, 4, (2, 3, 3), padding=(0, 1, 1))

    def forward(self, x):
        n, _, h, w = x.shape
        flow = self.flow(functional.pad(x, (1, 1, 1, 1), mode="replicate")).tanh() * 0.1
        y, z = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        grid = torch.stack([z, y], -1)[None] + flow.permute(0, 2, 3, 1)
        warped = functional.grid_sample(x, grid, align_corners=True)
        return self.cube(functional.pad(warped, (2, 2, 2, 2), mode="reflect")[:, None]).amax((3, 4)), warped


def depth():
    torch.manual_seed(0)
    return Fixture.of(Depth(), *shots(24)[:2])
