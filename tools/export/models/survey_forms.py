# SPDX-License-Identifier: BSD-3-Clause
"""Forms of programs for the survey: small models with each option of the exporter, and rare features."""

import copy

import torch
from torch import nn
from torch.nn import functional

from fixture import Fixture, Method
from models import survey_text
from models.inputs import integers, numbers


class Net(nn.Module):
    """Convolutions, linear layers, a kernel between them that no delegate takes."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.norm, self.first, self.second = nn.BatchNorm2d(8), nn.Linear(8 * 64, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.conv2(self.norm(self.conv1(x)).relu())
        x = self.first(x.flatten(1)).cumsum(1)
        return self.second(x.tanh())


def net(last=False, **options):
    torch.manual_seed(0)
    module, inputs = Net(), [(numbers(1, 3, 16, 16, seed=seed),) for seed in range(3)]
    if last:
        module, inputs = module.to(memory_format=torch.channels_last), [(x.to(memory_format=torch.channels_last),) for x, in inputs]
    return Fixture.of(module, *inputs, calibration=inputs, **options)


def emitted(**options):
    return net(emit=options)


def planned(**options):
    from executorch.exir.passes import MemoryPlanningPass

    return net(emit={"memory_planning_pass": MemoryPlanningPass(**options)})


def naively(**options):
    """Each tensor at a place of its own."""
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, naive

    return planned(memory_planning_algo=MemoryPlanningAlgorithmSuite([naive]), **options)


def two_arenas():
    """Convolutions' outputs in a second arena, the rest in the first."""
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass

    class Planning(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            for node in graph_module.graph.nodes:
                if node.op == "call_function" and "convolution" in str(node.target):
                    node.meta["spec"].mem_id = 2
            return super().run(graph_module, graph_signature)

    return net(emit={"memory_planning_pass": Planning(MemoryPlanningAlgorithmSuite())})


def channels_last():
    return net(last=True)


def last():
    """Channels last at both ends; the bundler writes such tensors as they lie."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sigmoid()).to(memory_format=torch.channels_last)
    return Fixture.of(module, *[(numbers(2, 3, 5, 6, seed=seed).to(memory_format=torch.channels_last),) for seed in range(2)])


def no_dim_order():
    return net(edge={"_skip_dim_order": True})


def external():
    fixture = net(expect_eager=True)
    fixture.external = True
    return fixture


def external_several():
    fixture = net(expect_eager=True)
    fixture.external = lambda node: "convolutions" if "conv" in node.name else "linears" if "bias" not in node.name else None
    return fixture


class Halves(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.LayerNorm(8), nn.Linear(8, 6)
        self.to(dtype)

    def forward(self, x):
        y = functional.avg_pool2d(self.conv(x).sigmoid(), 3).flatten(2).transpose(1, 2)
        return self.linear(self.norm(y)).softmax(-1), (y * y).mean((1, 2)), y.amax(1) > 0.5


def halves(kind):
    torch.manual_seed(0)
    dtype = getattr(torch, kind)
    return Fixture.of(Halves(dtype), *[(numbers(1, 3, 12, 12, seed=seed).to(dtype),) for seed in range(2)])


class Layers(nn.Module):
    """Linear layers with what may lie between them; an output that is read as well."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(16, 24), nn.Linear(24, 24, bias=False), nn.Linear(48, 5)

    def forward(self, x, scale):
        y = self.first(x).relu()
        z = self.second(y) * scale
        return self.last(torch.cat([z.sigmoid() * y, z + 0.1 * y], -1)), z


def layers_bf16():
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=12)
    cases = [(numbers(n, 16, seed=n).bfloat16(), numbers(24, seed=n + 1).bfloat16()) for n in (12, 1, 5, 3)]
    return Fixture.of(Layers().bfloat16(), *cases, dynamic_shapes=({0: rows}, None))


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(6.0).view(2, 3))

    def forward(self, x):
        return self.table, torch.full((3,), 7, dtype=torch.int32), torch.zeros(0, 4), x


def constant():
    return Fixture.of(Constant(), (numbers(2, 2),))


class Same(nn.Module):
    """One tensor is two outputs, another is input and output, an input is of no use."""

    def forward(self, x, y, unused):
        z = x + y
        return z, z, x


def same():
    return Fixture.of(Same(), (numbers(2, 2), numbers(2, 2, seed=1), numbers(1)))


class Nested(nn.Module):
    def forward(self, pair, table, scale=2.0):
        return {"sum": pair[0] + pair[1] * scale, "rest": (table["a"] - 1, table["b"].long())}


def nested():
    return Fixture.of(Nested(), ((numbers(3), numbers(3, seed=1)), {"a": numbers(2), "b": numbers(2, seed=3)}), expect_eager=False)


class Scalars(nn.Module):
    """Numbers that are no tensors as inputs."""

    def forward(self, x, n: int, f: float, b: bool):
        return x * n + f, x.sum() if b else x.prod()


def scalars():
    return Fixture.of(Scalars(), (numbers(4), 3, 0.5, True))


class Branches(nn.Module):
    """cond in cond, with a delegate's work in the branches; map over a batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        def deep(x):
            return torch.cond(x.amax() > 2, lambda x: self.a(x).relu(), lambda x: x - 1, (x,))

        return torch.cond(x.sum() > 0, deep, lambda x: self.b(x), (x,)) * 2


def branches():
    torch.manual_seed(0)
    x = numbers(3, 6)
    return Fixture.of(Branches(), (x.abs().clone(),), (-x.abs(),), (x.abs() * 9,))


class Mapped(nn.Module):
    def forward(self, xs, y):
        from functorch.experimental.control_flow import map as apply

        return apply(lambda x, y: (x * y).cumsum(0) + 1, xs, y)


def mapped():
    return Fixture.of(Mapped(), (numbers(4, 5), numbers(5)))


class Scanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 4)

    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        def step(h, x):
            h = torch.tanh(self.cell(torch.cat([h, x], -1)))
            return h, h + 0

        return scan(step, torch.zeros(2, 4), x)


def scanned():
    torch.manual_seed(0)
    return Fixture.of(Scanned(), (numbers(5, 2, 4),))


class Counter(nn.Module):
    """State of several types, changed in place in several ways."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.bool))
        self.register_buffer("history", torch.zeros(4, 3))

    def forward(self, x):
        at = self.steps % 4
        self.total.add_(x)
        self.history.index_copy_(0, at, x[None])
        self.seen.index_fill_(0, at, True)
        self.steps.add_(1)
        return self.total.clone(), self.history.mean(0), self.seen.sum(), self.steps.clone()


def counter(**options):
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    passes = [InitializedMutableBufferPass(["total", "steps", "seen", "history"])]
    return Fixture.of(Counter(), *[(numbers(3, seed=seed),) for seed in range(6)], emit={"passes": passes, **options})


def counter_elsewhere():
    """Mutable buffers that the plan does not place: the caller does, by name."""
    from executorch.exir.passes import MemoryPlanningPass

    return counter(memory_planning_pass=MemoryPlanningPass(alloc_mutable_buffers=False), emit_mutable_buffer_names=True)


def shared_state():
    """Two methods that share their mutable buffers."""
    from executorch.exir.passes import MemoryPlanningPass

    fixture = survey_text.gpt_two_methods()
    fixture.emit = {"memory_planning_pass": MemoryPlanningPass(share_mutable_buffers=True), "emit_mutable_buffer_names": True}
    return fixture


def in_place():
    """The cache written in place."""
    fixture = survey_text.gpt()
    fixture.emit = {"run_reinplace_pass": True}
    return fixture


class Twice(nn.Module):
    """One weight in several places; several partitions that have it."""

    def __init__(self):
        super().__init__()
        self.linear, self.conv = nn.Linear(16, 16), nn.Conv1d(16, 16, 3, padding=1)

    def forward(self, x):
        for _ in range(3):
            x = self.linear(x).cumsum(-1) / 10
            x = self.conv(x.transpose(1, 2)).transpose(1, 2).sort(-1)[0]
        return x @ self.linear.weight


def twice():
    torch.manual_seed(0)
    return Fixture.of(Twice(), *[(numbers(1, 5, 16, seed=seed),) for seed in range(2)])


class Shapes(nn.Module):
    """Sizes of the answer that follow from several symbolic sizes."""

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[1]
        z = torch.cat([x, y.transpose(0, 1)], 0)
        return (z.view(-1, 2), z[1:, :, None].expand(-1, -1, 3).reshape(-1, 12), torch.arange(n * 2 + m), x.new_zeros(m, n // 2 + 1),
                functional.pad(x, (0, 1, 2, 0)), z.split([n, m])[1], x.unsqueeze(0).repeat(2, 1, 1).flatten(0, 1))


def shapes():
    n, m = torch.export.Dim("n", min=2, max=12), torch.export.Dim("m", min=2, max=9)
    return Fixture.of(Shapes(), *[(numbers(a, 4, seed=a), numbers(4, b, seed=b)) for a, b in ((5, 3), (12, 9), (2, 2), (7, 8))],
                      dynamic_shapes=({0: n}, {1: m}))


class Data(nn.Module):
    """Sizes that the data decide."""

    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 2)
        torch._check(k <= 6)
        return x[:k] * 2, torch.arange(k), x.narrow(0, 1, k - 1).sum(0)


def data():
    return Fixture.of(Data(), *[(numbers(8, 3, seed=n), torch.tensor(n)) for n in (4, 6, 2)])


class Selected(nn.Module):
    def forward(self, x):
        return x[x > 0], torch.nonzero(x), x.abs().max()


def selected():
    return Fixture.of(Selected(), *[(numbers(3, 4, seed=seed),) for seed in range(2)])


class Types(nn.Module):
    """Every type of tensor that a portable program may hold, turned into each other."""

    def forward(self, a, b, c, d, e, f, g):
        return (a + b, b * c, (c // 3) * 2, d - a, e.logical_xor(g > 2), f.half() * 2, f.bfloat16() + 1, g.double() / 3, (a ^ 5).to(torch.uint8),
                torch.bitwise_and(b, 7), d.to(torch.int8), torch.where(e, f, g.float()), c.clamp(min=-5, max=9), (f > 0).to(torch.uint16).to(torch.int32))


def types():
    kinds = (torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float32, torch.float64)
    return Fixture.of(Types(), *[tuple((numbers(2, 3, seed=seed + i) * 20).abs().to(kind) if kind in (torch.uint8,) else (numbers(2, 3, seed=seed + i) * 20).to(kind)
                                       for i, kind in enumerate(kinds)) for seed in (0, 50)])


class Maths(nn.Module):
    """One of many elementwise and reducing operators."""

    def forward(self, x):
        y = x.abs() + 0.1
        return (torch.stack([x.sin(), x.cos(), x.tan(), x.sinh(), x.cosh(), x.asinh(), x.atan(), x.erf(), y.log1p(), y.rsqrt(), y.reciprocal(),
                             x.floor(), x.ceil(), x.round(), x.trunc(), x.frac(), x.sign(), x.exp(), x.expm1(), torch.atan2(x, y), torch.fmod(x, 0.7), torch.remainder(x, 0.7)]),
                x.var(-1), x.std((0, 1), unbiased=False), x.norm(dim=1), x.logsumexp(0), x.prod(1), x.median(), x.cumprod(0), x.flip(1), x.roll(2, 1), x.tril(-1), torch.linalg.vector_norm(x, 1),
                functional.softplus(x), functional.elu(x), functional.celu(x), functional.selu(x), functional.mish(x), functional.hardsigmoid(x), functional.logsigmoid(x), functional.softshrink(x), functional.threshold(x, 0.1, 2.0), functional.prelu(x, torch.tensor([0.2])))


def maths():
    return Fixture.of(Maths(), *[(numbers(6, 7, seed=seed) * 2,) for seed in range(2)])


class Moves(nn.Module):
    """Tensors rearranged: scatter, gather, index_put, repeat_interleave, embedding_bag and their kind."""

    def forward(self, x, i):
        return (x.scatter(1, i, 1.0), x.scatter_add(1, i, x), x.gather(1, i), x.index_select(0, i[:, 0]), x.index_add(0, i[:, 0], x), x.index_put((i[:, 0], i[:, 1]), torch.ones(4), accumulate=True),
                x.repeat_interleave(2, dim=1), x.tile(2, 1), x.rot90(), x.masked_fill(x > 0, -1.0), x.select_scatter(torch.zeros(5), 0, 1), x.slice_scatter(torch.ones(4, 2), 1, 0, 4, 2), x.diagonal_scatter(torch.zeros(4)),
                torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), functional.one_hot(i, 5), x.unfold(1, 3, 1), torch.searchsorted(x.sort(-1)[0], x), x.diagonal(), torch.einsum("ij,kj->ik", x, x), torch.cdist(x, x), x.topk(2)[0], torch.tensor_split(x, 3, 1)[2])


def moves():
    return Fixture.of(Moves(), *[(numbers(4, 5, seed=seed), integers(4, 4, 5, seed=seed)) for seed in range(2)])


def joint():
    """A step of training: loss and gradients, as the exporter's training extension makes them."""
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from torch.export.experimental import _export_forward_backward

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = nn.Conv2d(1, 4, 3), nn.Linear(4 * 9, 3)

        def forward(self, x, label):
            y = self.linear(functional.max_pool2d(self.conv(x).relu(), 2).flatten(1))
            return functional.cross_entropy(y, label), y.detach().argmax(1)

    torch.manual_seed(0)
    module, case = Loss(), (numbers(2, 1, 8, 8), torch.tensor([1, 2]))

    class Reference(nn.Module):
        def forward(self, x, label):
            with torch.enable_grad():
                m = copy.deepcopy(module)
                loss, answer = m(x, label)
                loss.backward()
            return loss.detach(), answer, *[p.grad for p in m.parameters()], *[p.detach() for p in m.parameters()]

    def lower(recipe):
        with torch.enable_grad():
            both = _export_forward_backward(torch.export.export(module, case, strict=True))
        return to_edge(both, compile_config=EdgeCompileConfig(_check_ir_validity=False)).to_executorch(ExecutorchBackendConfig()), {"forward": Reference()}

    return Fixture.of(None, case, lower=lower)


def fused(bits=8):
    """Embeddings of few bits and the exporter's pass that fuses them, without a delegate."""
    import executorch.kernels.quantized  # noqa: F401  the operators' declarations
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.utils import unwrap_tensor_subclass

    fixture = survey_text.tables()
    module = fixture.methods["forward"].module
    kind = {8: torch.int8, 4: torch.int4, 2: torch.int2}[bits]
    quantize_(module, IntxWeightOnlyConfig(weight_dtype=kind, granularity=PerGroup(32) if bits < 8 else PerAxis(0)), lambda m, _: isinstance(m, nn.Embedding))
    unwrap_tensor_subclass(module)
    fixture.emit = {"do_quant_fusion_and_const_prop": True}
    return fixture
