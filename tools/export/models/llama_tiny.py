# SPDX-License-Identifier: BSD-3-Clause
"""A Llama of two layers with random weights. Inputs are a token and its position, the output has the next token's logits.
Buffers keep the keys and values of earlier tokens. The test cases are 32 steps, which run in order."""

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture
from models.inputs import integers

WIDTH, HEADS, HIDDEN, LAYERS, WORDS, LENGTH = 128, 4, 256, 2, 512, 64
SIZE = WIDTH // HEADS


def rotate(x, cos, sin):
    a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.norm1, self.norm2 = Norm(), Norm()
        self.register_buffer("keys", torch.zeros(1, HEADS, LENGTH, SIZE), persistent=False)
        self.register_buffer("values", torch.zeros(1, HEADS, LENGTH, SIZE), persistent=False)

    def forward(self, x, position, cos, sin, mask):
        y = self.norm1(x)
        q, k, v = (linear(y).view(1, 1, HEADS, SIZE).transpose(1, 2) for linear in (self.q, self.k, self.v))
        self.keys[:, :, position] = rotate(k, cos, sin)
        self.values[:, :, position] = v
        scores = rotate(q, cos, sin) @ self.keys.transpose(2, 3) / SIZE**0.5 + mask
        x = x + self.o((scores.softmax(-1) @ self.values).transpose(1, 2).reshape(1, 1, WIDTH))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, WORDS, bias=False)
        angles = torch.arange(LENGTH)[:, None] / 10000 ** (torch.arange(0, SIZE, 2) / SIZE)[None]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        future = torch.full((LENGTH, LENGTH), -1e9).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, token, position):
        x = self.words(token)
        cos, sin, mask = (table[position] for table in (self.cos, self.sin, self.future))
        for layer in self.layers:
            x = layer(x, position, cos, sin, mask)
        return self.head(self.norm(x))[:, -1]


def build():
    torch.manual_seed(0)
    tokens = integers(WORDS, 32)
    cases = [(tokens[i].view(1, 1).clone(), torch.tensor([i])) for i in range(32)]
    return Fixture.of(Llama(), *cases, expect_eager=True)
