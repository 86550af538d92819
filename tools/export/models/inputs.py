# SPDX-License-Identifier: BSD-3-Clause
"""Inputs of models: images, speech and numbers.

The images are those of tests/data. Speech is that of ../shared if the folder exists. Else it is synthetic: tones and noise
with pauses, for which a voice detector also returns high and low probabilities.
"""

import math
from pathlib import Path

import torch

top = Path(__file__).resolve().parents[3]
pictures = ("chelsea.png", "coffee.png", "rocket.jpg", "astronaut.png")


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(high, *shape, seed=0):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def picture(name, size, mean, std):
    """The centre of a picture, 1 x 3 x size x size, with 256 / 224 of that as its shorter side."""
    import numpy
    from PIL import Image

    image = Image.open(top / "tests/data" / name).convert("RGB")
    scale = size * 8 / 7 / min(image.size)
    image = image.resize([round(side * scale) for side in image.size], Image.Resampling.BICUBIC)
    left, upper = ((side - size) // 2 for side in image.size)
    pixels = numpy.asarray(image.crop((left, upper, left + size, upper + size)), dtype=numpy.float32)
    return torch.from_numpy((pixels / 255 - mean) / std).permute(2, 0, 1)[None].contiguous()


def speech(n_frames=86, n_samples=512):
    """Frames of 1 x n_samples at 16 kHz."""
    recorded = top.parent / "shared/models/silero_vad/speech_frames.f32"
    if recorded.exists():
        return [frame[None].clone() for frame in
                torch.frombuffer(bytearray(recorded.read_bytes()), dtype=torch.float32).view(-1, n_samples)]
    t = torch.arange(n_frames * n_samples) / 16000
    pitch = 120 + 20 * torch.sin(2 * math.pi * 3 * t)
    phase = 2 * math.pi * torch.cumsum(pitch / 16000, 0)
    voice = sum(torch.sin(k * phase) / k for k in range(1, 20))
    hiss = numbers(len(t), seed=1) * 0.02
    talking = (torch.sin(2 * math.pi * 0.8 * t) > 0).float()
    return list((0.2 * voice * talking + hiss).float().view(n_frames, 1, n_samples).clone())
