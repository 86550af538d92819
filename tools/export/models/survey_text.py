# SPDX-License-Identifier: BSD-3-Clause
"""Text for the survey: encoders, decoders with a cache, encoder and decoder together."""

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture, Method
from models import llama_tiny
from models.encoders import MaskedText, Text
from models.inputs import integers, numbers


class Bert(nn.Module):
    """PyTorch's own transformer layers, with a mask of bools and a pooler."""

    def __init__(self, width=64, n_words=300, norm_first=False):
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)  # to one operator that no runtime has
        self.words, self.places = nn.Embedding(n_words, width, padding_idx=0), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, 0.0, "gelu", batch_first=True, norm_first=norm_first)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pool = nn.Linear(width, width)

    def forward(self, ids):
        hidden = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        hidden = self.layers(hidden, src_key_padding_mask=ids == 0)
        return hidden, torch.tanh(self.pool(hidden[:, 0]))


def padded(seed, batch, length):
    ids = integers(299, batch, length, seed=seed) + 1
    for i in range(batch):
        ids[i, length - i * 2:] = 0
    return ids


def bert(**options):
    torch.manual_seed(0)
    return Fixture.of(Bert(**options), *[(padded(seed, 2, 24),) for seed in range(3)])


def bert_dynamic(**options):
    torch.manual_seed(0)
    shapes = ({0: torch.export.Dim("batch", min=1, max=4), 1: torch.export.Dim("length", min=4, max=64)},)
    return Fixture.of(Bert(**options), *[(padded(seed, *shape),) for seed, shape in enumerate([(2, 24), (4, 64), (1, 4), (3, 17)])],
                      dynamic_shapes=shapes)


class T5(nn.Module):
    """An encoder and a decoder that looks at it; biases by distance instead of places."""

    def __init__(self, width=48, heads=4, n_words=200):
        super().__init__()
        self.heads = heads
        self.words, self.bias = nn.Embedding(n_words, width), nn.Embedding(16, heads)
        self.qkv, self.out1 = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.dq, self.dkv, self.out2 = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False), nn.Linear(width, width)
        self.norm = nn.RMSNorm(width)
        self.gate, self.up, self.down = nn.Linear(width, 96, bias=False), nn.Linear(width, 96, bias=False), nn.Linear(96, width, bias=False)

    def attend(self, q, k, v, bias=None, causal=False):
        def split(x):
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        scores = split(q) @ split(k).transpose(-1, -2)
        if bias is not None:
            scores = scores + bias
        if causal:
            n = q.shape[1]
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return (scores.softmax(-1) @ split(v)).transpose(1, 2).flatten(2)

    def forward(self, source, target):
        n = source.shape[1]
        x = self.words(source)
        distance = torch.arange(n)[None] - torch.arange(n)[:, None]
        near = torch.where(distance.abs() < 8, distance.abs(), 8 + (distance.abs().float() / 8).log2().clamp(max=7).long().clamp(min=0))
        bias = self.bias(near).permute(2, 0, 1)[None]
        x = x + self.out1(self.attend(*self.qkv(self.norm(x)).chunk(3, -1), bias=bias))
        y = self.words(target)
        y = y + self.out1(self.attend(*self.qkv(self.norm(y)).chunk(3, -1), causal=True))
        y = y + self.out2(self.attend(self.dq(y), *self.dkv(x).chunk(2, -1)))
        y = y + self.down(functional.gelu(self.gate(y), approximate="tanh") * self.up(y))
        return y @ self.words.weight.T


def t5():
    torch.manual_seed(0)
    shapes = ({1: torch.export.Dim("source", min=2, max=48)}, {1: torch.export.Dim("target", min=2, max=32)})
    return Fixture.of(T5(), *[(integers(200, 1, a, seed=a), integers(200, 1, b, seed=b)) for a, b in ((9, 5), (48, 32), (2, 2), (17, 31))],
                      dynamic_shapes=shapes)


class Gpt(nn.Module):
    """A decoder of any number of tokens at once, whose cache is written by index_put at their places."""

    def __init__(self, width=64, heads=4, length=32, n_words=120, dtype=torch.float32):
        super().__init__()
        self.heads, self.length = heads, length
        self.words, self.places = nn.Embedding(n_words, width), nn.Embedding(length, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.head = nn.Linear(width, 128), nn.Linear(128, width), nn.Linear(width, n_words, bias=False)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to(dtype)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, length, width // heads, dtype=dtype), persistent=False)

    def forward(self, ids, places):
        x = self.words(ids) + self.places(places)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        self.keys[:, :, places] = k
        self.values[:, :, places] = v
        mask = torch.arange(self.length)[None] <= places[:, None]
        y = functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        x = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return self.head(x)


def gpt(dtype="float32", dynamic=True):
    torch.manual_seed(0)
    cases, at = [], 0
    for n in (7, 1, 3, 12, 1, 1) if dynamic else (1,) * 8:
        cases.append((integers(120, 1, n, seed=at), torch.arange(at, at + n)))
        at += n
    shapes = None
    if dynamic:
        n = torch.export.Dim("n", min=1, max=16)
        shapes = ({1: n}, {0: n})
    return Fixture.of(Gpt(dtype=getattr(torch, dtype)), *cases, dynamic_shapes=shapes)


def gpt_two_methods():
    """Prefill and decode as two methods of one program."""
    torch.manual_seed(0)
    module = Gpt().eval()
    return Fixture({"prefill": Method(module, [(integers(120, 1, 8), torch.arange(8))]),
                    "decode": Method(module, [(integers(120, 1, 1, seed=i), torch.tensor([i])) for i in range(4)])},
                   constants={"get_max_seq_len": 32, "get_vocab_size": 120, "use_kv_cache": True, "get_rope": 1.5})


def llama(places=True):
    """The tiny Llama, eight steps."""
    fixture = llama_tiny.build()
    method = fixture.methods["forward"]
    method.cases = method.cases[:8]
    fixture.expect_eager = False
    return fixture


def encoder(dynamic=True):
    torch.manual_seed(0)
    if not dynamic:
        return Fixture.of(Text(200, 64), (integers(200, 1, 16),))
    return Fixture.of(Text(200, 64), *[(integers(200, 1, n, seed=n),) for n in (7, 64, 2, 33)],
                      dynamic_shapes=({1: torch.export.Dim("length", min=2, max=64)},))


def masked():
    torch.manual_seed(0)
    mask = torch.zeros(1, 32)
    mask[:, 24:] = -1e4
    return Fixture.of(MaskedText(200, 64), (integers(200, 1, 32), mask))


class Tables(nn.Module):
    """Embeddings, sums over several of them, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(100, 64), nn.Linear(64, 32)

    def forward(self, ids):
        return self.head(self.words(ids).mean(-2))


def tables():
    torch.manual_seed(0)
    return Fixture.of(Tables(), *[(integers(100, 2, 9, seed=seed),) for seed in range(3)])


class Beam(nn.Module):
    """A step of a search: the best of all continuations, and which beam each is from."""

    def forward(self, scores, sums):
        total = scores.log_softmax(-1) + sums[:, None]
        best, where = total.flatten().topk(4)
        return best, torch.div(where, scores.shape[-1], rounding_mode="floor"), where % scores.shape[-1], total.argsort(-1, descending=True)[:, :3]


def beam():
    shapes = ({1: torch.export.Dim("words", min=4, max=90)}, None)
    return Fixture.of(Beam(), *[(numbers(4, n, seed=n), numbers(4, seed=n)) for n in (30, 90, 4)], dynamic_shapes=shapes)
