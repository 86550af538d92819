# SPDX-License-Identifier: BSD-3-Clause
"""Audio and time series for the survey: recurrent layers, convolutions over time, filters, state."""

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture
from models.inputs import numbers


class Recurrent(nn.Module):
    def __init__(self, kind, n_in, width, **options):
        super().__init__()
        self.cells = getattr(nn, kind)(n_in, width, batch_first=True, **options)
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, x):
        return self.head(self.cells(x)[0])


def recurrent(kind, shape=(2, 7, 12), width=16, **options):
    torch.manual_seed(0)
    return Fixture.of(Recurrent(kind, shape[2], width, **options), *[(numbers(*shape, seed=seed),) for seed in range(2)])


class Wav2Letter(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = ((1, 24, 25, 16), (24, 24, 7, 1), (24, 24, 7, 1), (24, 48, 11, 1), (48, 48, 1, 1))
        layers = []
        for a, b, kernel, stride in sizes:
            layers += [nn.Conv1d(a, b, kernel, stride, kernel // 2), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Conv1d(48, 29, 1)

    def forward(self, x):
        return self.head(self.layers(x)).log_softmax(1)


def wav2letter(dynamic=False):
    torch.manual_seed(0)
    if dynamic:
        n = torch.export.Dim("n", min=2, max=16)
        return Fixture.of(Wav2Letter(), *[(numbers(1, 1, 160 * k, seed=k),) for k in (5, 16, 2)], dynamic_shapes=({2: 160 * n},))
    return Fixture.of(Wav2Letter(), (numbers(1, 1, 1600),))


class Tcn(nn.Module):
    """Dilated causal convolutions over time, gated; pooled at the end."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(6, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 32, 3, dilation=2**i, groups=2) for i in range(3))
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        x = self.first(x)
        for i, layer in enumerate(self.layers):
            x = x + functional.glu(layer(functional.pad(x, (2 * 2**i, 0))), 1)
        x = self.norm(x)
        return self.head(functional.adaptive_avg_pool1d(x, 1).squeeze(-1)), functional.max_pool1d(x, 3, 2, 1)


def tcn():
    torch.manual_seed(0)
    return Fixture.of(Tcn(), *[(numbers(2, 6, 40, seed=seed),) for seed in range(2)], calibration=[(numbers(2, 6, 40, seed=seed),) for seed in range(4)])


class Stream(nn.Module):
    """A keyword spotter of streams: a ring of the last frames, a running mean, a counter: initial values that matter."""

    def __init__(self):
        super().__init__()
        self.conv, self.cell, self.head = nn.Conv1d(8, 16, 3), nn.GRUCell(16, 16), nn.Linear(16, 4)
        self.register_buffer("ring", torch.arange(64, dtype=torch.float32).view(1, 8, 8) / 64)
        self.register_buffer("hidden", torch.full((1, 16), 0.25))
        self.register_buffer("mean", torch.ones(8))
        self.register_buffer("count", torch.tensor([3], dtype=torch.int64))

    def forward(self, frame):
        self.count += 1
        self.mean.copy_(self.mean + (frame[0] - self.mean) / self.count)
        self.ring.copy_(torch.cat([self.ring[:, :, 1:], (frame - self.mean)[:, :, None]], 2))
        hidden = self.cell(self.conv(self.ring).relu().amax(-1), self.hidden)
        self.hidden.copy_(hidden)
        return self.head(hidden).softmax(-1), self.count.clone()


def stream():
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    torch.manual_seed(0)
    passes = [InitializedMutableBufferPass(["ring", "hidden", "mean", "count"])]
    return Fixture.of(Stream(), *[(numbers(1, 8, seed=seed),) for seed in range(6)], emit={"passes": passes})


class Spectrum(nn.Module):
    """Features of sound as they are made before a network: windows, a Fourier transform by matrices, mel bands, logs."""

    def __init__(self):
        super().__init__()
        n = 64
        t = torch.arange(n) * torch.arange(n // 2 + 1)[:, None] * 2 * torch.pi / n
        self.register_buffer("real", t.cos() * torch.hann_window(n))
        self.register_buffer("imaginary", t.sin() * torch.hann_window(n))
        self.register_buffer("bands", torch.rand(n // 2 + 1, 10))

    def forward(self, x):
        frames = x.unfold(-1, 64, 32)
        power = (frames @ self.real.T).square() + (frames @ self.imaginary.T).square()
        mel = (power @ self.bands).clamp(min=1e-6).log10()
        return (mel - mel.mean(1, keepdim=True)) / mel.std(1, keepdim=True), mel.cumsum(1), torch.diff(mel, dim=1)


def spectrum():
    torch.manual_seed(0)
    return Fixture.of(Spectrum(), *[(numbers(1, 640, seed=seed),) for seed in range(2)])


class Conformer(nn.Module):
    """One block of a Conformer."""

    def __init__(self, width=32):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide, self.deep, self.back = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 7, padding=3, groups=width), nn.Conv1d(width, width, 1)
        self.batch = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x + 0.5 * self.down(functional.silu(self.up(self.norm1(x))))
        y = self.norm2(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = functional.glu(self.wide(self.norm3(x).transpose(1, 2)), 1)
        return x + self.back(functional.silu(self.batch(self.deep(y)))).transpose(1, 2)


def conformer(dynamic=False):
    torch.manual_seed(0)
    if dynamic:
        return Fixture.of(Conformer(), *[(numbers(1, n, 32, seed=n),) for n in (11, 40, 3)], dynamic_shapes=({1: torch.export.Dim("n", min=3, max=40)},))
    return Fixture.of(Conformer(), (numbers(2, 11, 32),))
