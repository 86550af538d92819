# SPDX-License-Identifier: BSD-3-Clause
"""Silero's voice activity detector for 16 kHz, with the weights in the package silero-vad. The last 64 samples and
the LSTM's state are buffers, so a stream is a sequence of calls with 512 samples each."""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture
from models.inputs import speech

CONTEXT, BINS = 64, 129


class SileroVad(nn.Module):
    def __init__(self):
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 2 * BINS, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(BINS, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)
        self.register_buffer("context", torch.zeros(1, CONTEXT), persistent=False)
        self.register_buffer("hidden", torch.zeros(1, 128), persistent=False)
        self.register_buffer("cell", torch.zeros(1, 128), persistent=False)

    def forward(self, samples):
        x = torch.cat([self.context, samples], 1)
        self.context.copy_(samples[:, -CONTEXT:])
        x = self.stft_conv(functional.pad(x, (0, 64), mode="reflect").unsqueeze(1))
        x = (x[:, :BINS].pow(2) + x[:, BINS:].pow(2)).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        hidden, cell = self.lstm_cell(x.squeeze(-1), (self.hidden, self.cell))
        self.hidden.copy_(hidden)
        self.cell.copy_(cell)
        return self.final_conv(hidden.relu().unsqueeze(-1)).sigmoid().squeeze(-1)


def build():
    import silero_vad
    from safetensors.torch import load_file

    module = SileroVad()
    module.load_state_dict(load_file(Path(silero_vad.__file__).parent / "data/silero_vad_16k.safetensors"))
    return Fixture.of(module, *[(frame,) for frame in speech()], expect_eager=True)
