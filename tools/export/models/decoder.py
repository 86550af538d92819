# SPDX-License-Identifier: BSD-3-Clause
"""A decoder's attention as in ExecuTorch's extension/llm, with random weights. The input has three positions; buffers keep
their caches from run to run. The test cases are four steps, which run in order."""

import torch
from torch import nn

from fixture import Fixture
from models.inputs import numbers

HEADS, CACHED, SIZE, LENGTH = 4, 2, 8, 16
WIDTH = HEADS * SIZE


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, CACHED * SIZE, bias=False) for _ in range(2))
        self.register_buffer("keys", torch.zeros(1, LENGTH, CACHED, SIZE))
        self.register_buffer("values", torch.zeros(1, LENGTH, CACHED, SIZE))

    def forward(self, x, position):
        llama = torch.ops.llama
        n = x.shape[1]
        start = position[0].item()
        torch._check_is_size(start)
        torch._check(start < LENGTH)
        torch._check(start + n <= LENGTH)
        x = llama.fast_hadamard_transform(x)
        llama.update_cache(self.k(x).view(1, n, CACHED, SIZE), self.keys, start)
        llama.update_cache(self.v(x).view(1, n, CACHED, SIZE), self.values, start)
        query = self.q(x).view(1, n, HEADS, SIZE)
        y = llama.custom_sdpa(query, self.keys, self.values, start, None, 0.0, True, None)
        return self.o(y.reshape(1, n, WIDTH))


def build():
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401, it registers them

    torch.manual_seed(0)
    cases = [(numbers(1, 3, WIDTH, seed=i), torch.tensor([3 * i])) for i in range(4)]
    return Fixture.of(Decoder(), *cases,
                      emit={"passes": [InitializedMutableBufferPass(["keys", "values"])]})
