# SPDX-License-Identifier: BSD-3-Clause
"""One step of a Llama of two layers with random weights, without state: the keys and values of earlier tokens are inputs, those
of this token are outputs, as engines without mutable buffers have it."""

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture
from models.inputs import integers, numbers

WIDTH, HEADS, HIDDEN, LAYERS, WORDS, PAST = 256, 4, 688, 2, 2000, 127
SIZE = WIDTH // HEADS


def rotate(x, cos, sin):
    a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)

    def forward(self, x, keys, values, cos, sin):
        y = self.norm1(x)
        q, k, v = (linear(y).view(1, 1, HEADS, SIZE).transpose(1, 2) for linear in (self.q, self.k, self.v))
        k = rotate(k, cos, sin)
        scores = rotate(q, cos, sin) @ torch.cat([keys, k], 2).transpose(2, 3) / SIZE**0.5
        mixed = scores.softmax(-1) @ torch.cat([values, v], 2)
        x = x + self.o(mixed.transpose(1, 2).reshape(1, 1, WIDTH))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), k, v


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH, 1e-5), nn.Linear(WIDTH, WORDS, bias=False)
        angles = torch.arange(PAST + 1)[:, None] / 10000 ** (torch.arange(0, SIZE, 2) / SIZE)[None]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, token, position, keys, values):
        """@keys and @values are 1 x (LAYERS * HEADS) x PAST x SIZE."""
        x, ks, vs = self.words(token), [], []
        cos, sin = self.cos[position], self.sin[position]
        for layer, earlier_keys, earlier_values in zip(self.layers, keys.chunk(LAYERS, 1), values.chunk(LAYERS, 1)):
            x, k, v = layer(x, earlier_keys, earlier_values, cos, sin)
            ks.append(k)
            vs.append(v)
        return self.head(self.norm(x))[:, -1], torch.cat(ks, 1), torch.cat(vs, 1)


def build():
    torch.manual_seed(0)
    caches = (numbers(1, LAYERS * HEADS, PAST, SIZE, seed=seed) for seed in (1, 2))
    return Fixture.of(Step(), (integers(WORDS, 1, 1), torch.tensor([PAST]), *caches))
