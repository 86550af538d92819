# SPDX-License-Identifier: BSD-3-Clause
"""Transformer encoders with random weights: for text of any length, for text with a mask, for images."""

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture
from models.inputs import integers, numbers


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask=None):
        _, n, width = x.shape
        q, k, v = (y.reshape(1, n, self.heads, width // self.heads).transpose(1, 2)
                   for y in self.qkv(x).split(width, dim=-1))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        if mask is not None:
            scores = scores + mask
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, n, width)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Text(nn.Module):
    """Token ids in, the mean of what the layers make of them out."""

    def __init__(self, n_words, width, n_layers=2):
        super().__init__()
        self.words = nn.Embedding(n_words, width)
        self.layers = nn.ModuleList(Layer(width, 4) for _ in range(n_layers))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


class MaskedText(Text):
    """The same where @mask, added to the scores, may leave tokens out; the mean stays one row."""

    def forward(self, ids, mask):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        return x.mean(1, keepdim=True)


class Vit(nn.Module):
    def __init__(self, size=64, patch=8, width=128, n_layers=2, n_classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.02)
        self.layers = nn.ModuleList(Layer(width, 4) for _ in range(n_layers))
        self.head = nn.Linear(width, n_classes)

    def forward(self, picture):
        x = self.patches(picture).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def dynamic():
    torch.manual_seed(0)
    # The first length is the one that is traced with; every other bound is in the program.
    cases = [(integers(1000, 1, n, seed=n),) for n in (7, 256, 2, 129)]
    shapes = ({1: torch.export.Dim("length", min=2, max=256)},)
    return Fixture.of(Text(1000, 128), *cases, dynamic_shapes=shapes)


def masked(length=32, **options):
    torch.manual_seed(0)
    mask = torch.zeros(1, length)
    mask[:, length * 3 // 4:] = -1e4
    return Fixture.of(MaskedText(1000, **({"width": 128} | options)), (integers(1000, 1, length), mask))


def vit():
    torch.manual_seed(0)
    return Fixture.of(Vit(), (numbers(1, 3, 64, 64),))


def mixed():
    """A vision transformer small enough to read: convolution, linear layers and normalization."""
    torch.manual_seed(0)

    class Mixed(Vit):
        def forward(self, picture):
            x = self.patches(picture).relu().flatten(2).transpose(1, 2) + self.places
            for layer in self.layers:
                x = layer(x)
            return self.head(x).cumsum(1)  # neither backend has cumsum: that is a kernel's

    return Fixture.of(Mixed(size=16, patch=4, width=32, n_layers=1), (numbers(1, 3, 16, 16),))
