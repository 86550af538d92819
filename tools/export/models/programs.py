# SPDX-License-Identifier: BSD-3-Clause
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


class Caches(nn.Module):
    """Attention over what came before, and how much of it is left, both of which its users change."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(16, 8))
        self.register_buffer("values", torch.zeros(16, 8))
        self.register_buffer("level", torch.ones(1))


class Step(nn.Module):
    """Some tokens at their positions."""

    def __init__(self, caches):
        super().__init__()
        self.caches = caches

    def forward(self, x, at):
        caches = self.caches
        q, k, v = caches.project(x).split(8, -1)
        caches.keys.index_copy_(0, at, k)
        caches.values.index_copy_(0, at, v)
        caches.level.mul_(0.5)
        hidden = torch.arange(16)[None] > at[:, None]
        scores = (q @ caches.keys.t()).masked_fill(hidden, -1e4)
        return scores.softmax(-1) @ caches.values


class Level(nn.Module):
    def __init__(self, caches):
        super().__init__()
        self.caches = caches

    def forward(self):
        return self.caches.level


class Wipe(nn.Module):
    def __init__(self, caches):
        super().__init__()
        self.caches = caches

    def forward(self, level):
        self.caches.keys.zero_()
        self.caches.level.copy_(level)
        return level + 0


class Square(nn.Module):
    def forward(self, x):
        return x * x


def shared_caches():
    """Methods that share their mutable buffers, one that only reads them, one that only writes, one that has none, and one
    that only answers a number, as language models have several."""
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    torch.manual_seed(0)
    caches = Caches().eval()
    return Fixture({
        "begin": Method(Step(caches).eval(), [(numbers(4, 8), torch.arange(4))]),
        "decode": Method(Step(caches).eval(), [(numbers(1, 8, seed=i), torch.tensor([i])) for i in range(4, 7)]),
        "level": Method(Level(caches).eval(), [()]),
        "square": Method(Square().eval(), [(numbers(2, 3),)]),
        "wipe": Method(Wipe(caches).eval(), [(torch.ones(1),)]),
    }, constants={"get_length": 16}, emit={"memory_planning_pass": MemoryPlanningPass(share_mutable_buffers=True),
                                          "passes": [InitializedMutableBufferPass(["level"])]})


class Counted(nn.Module):
    def forward(self, x):
        return x + 1, x.sum().item(), (x > 0).any().item(), x.argmax().item()


def counted():
    return Fixture.of(Counted(), (torch.tensor([1.0, 5, 2]),), (torch.tensor([-3.0, -1, -2]),))


class LeftOut(nn.Module):
    def forward(self, a, b: int, c: float, d: bool, e: str, f):
        return a * b + c if d else a, b


def left_out():
    """The bundler knows neither strings nor None."""
    return Fixture.of(LeftOut(), (numbers(4), 3, 0.5, True, "w", None), is_bundled=False)


class Next(nn.Module):
    def forward(self, x):
        return x + 1


def constants():
    return Fixture.of(Next(), (numbers(2),), constants={
        "get_name": 'caf\u00e9 "\u4e2d" \x1b[31m\n', "get_n": 7, "get_scale": 0.5, "has_cache": True})


def gelu():
    return Fixture.of(nn.GELU(), (numbers(7),))


def data_of(*layers):
    """A program of @layers whose constants, all of them XNNPACK's, go to weights.ptd."""
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted

    module = nn.Sequential(*layers).eval()
    cases = [(numbers(1, 3, 6, 6, seed=seed),) for seed in range(2)]

    def lower(recipe):
        unlifted = torch.export.export(module, cases[0], strict=True).module(check_guards=False)
        delegate_external_constants_pass_unlifted(unlifted, lambda node: "weights")
        edge = to_edge_transform_and_lower(torch.export.export(unlifted, cases[0], strict=True), partitioner=recipe.partitioners,
                                           compile_config=EdgeCompileConfig(_check_ir_validity=False))
        return edge.to_executorch(ExecutorchBackendConfig()), {"forward": module}

    return Fixture({"forward": Method(module, cases)}, external=True, expect_eager=True, lower=lower)


def first_convolution():
    torch.manual_seed(0)
    return nn.Conv2d(3, 8, 3, padding=1)


def data_first():
    first = first_convolution()
    return data_of(first, nn.Conv2d(8, 5, 1))


def data_second():
    """All of its weights are among those of data_first."""
    return data_of(first_convolution(), nn.Tanh())


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
