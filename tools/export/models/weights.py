# SPDX-License-Identifier: BSD-3-Clause
"""Useful random weights: settle() gives batch normalization the statistics that training would give it. Without them the
outputs of a deep network shrink to zero, and a runtime that returns zeros would pass."""

import torch
from torch import nn


def settle(module, inputs):
    norms = [one for one in module.modules() if isinstance(one, nn.BatchNorm2d)]
    kept = [one.momentum for one in norms]
    for one in norms:
        one.reset_running_stats()
        one.momentum = None  # the mean over all inputs
    module.train()
    with torch.no_grad():
        module(torch.cat(inputs))
    for one, momentum in zip(norms, kept):
        one.momentum = momentum
    return module.eval()
