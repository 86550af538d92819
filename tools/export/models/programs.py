"""Small programs with random weights: each shows one thing a runtime has to have."""

import torch
from torch import nn

from fixture import Fixture, Method
from models.inputs import numbers


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: x.neg(), (x,))


class Pair(nn.Module):
    def forward(self, a, b):
        return a @ b, a.sum(0, keepdim=True)


def two_methods_cond():
    torch.manual_seed(0)
    x = numbers(4, 8)
    return Fixture({
        "forward": Method(Branch().eval(), [(x.abs(),), (-x.abs(),)]),
        "pair": Method(Pair().eval(), [(numbers(4, 8, seed=1), numbers(8, 2, seed=2))]),
    })


def mlp_of(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def external():
    torch.manual_seed(0)
    return Fixture.of(mlp_of(32, 64, 10), (numbers(3, 32),), external=True, expect_eager=True)


def mlp():
    torch.manual_seed(0)
    return Fixture.of(mlp_of(64, 256, 256, 10), (numbers(4, 64),))


def mlp_wide():
    torch.manual_seed(0)
    return Fixture.of(mlp_of(128, 128, 32), (numbers(8, 128),))


def small():
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    cases = [(numbers(1, 3, 32, 32, seed=seed),) for seed in range(4)]
    return Fixture.of(module, cases[0], calibration=cases)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    torch.manual_seed(0)
    return Fixture.of(Lstm(), (numbers(1, 8, 16),))
