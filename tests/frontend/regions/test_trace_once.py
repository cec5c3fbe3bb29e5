"""Regions traced once: AOTAutograd's graphs are those that it makes without, and so are results and gradients, bit for bit."""

import itertools
import re

import pytest
import torch
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx.boxed import boxed
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.regions import calls, find, outline
from bascule.frontend.regions.templates import NotATemplate
from torch import nn
from torch.fx.node import map_arg
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import bascule
from bascule.reporting.counters import reset_counters

WIDTH = 16


class Block(nn.Module):
    """A layer of a transformer, of which each part can be switched."""

    def __init__(self, dropout=0.0, inplace=False):
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down, self.dropout, self.inplace = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH), dropout, inplace

    def forward(self, x, mask=None):
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.into(self.norm(x)).split(WIDTH, -1))
        scores = q @ k.transpose(-1, -2) * 8**-0.5
        if mask is not None:
            scores = scores + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        x = x + F.dropout(self.out(y), self.dropout, self.training)
        y = self.up(x)
        y = F.relu_(y) if self.inplace else F.gelu(y)
        return x + F.dropout(self.down(y), self.dropout, self.training)


class Stack(nn.Module):
    def __init__(self, number=4, **how):
        super().__init__()
        self.blocks = nn.ModuleList(Block(**how) for _ in range(number))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x, *shared):
        for block in self.blocks:
            x = block(x, *shared)
        return self.head(x)


class Collecting(Stack):
    """The result of each layer is one of the model's too."""

    def forward(self, x):
        found = []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return self.head(x), *found


class Recurring(Stack):
    """All layers are one."""

    def forward(self, x):
        for _ in range(4):
            x = self.blocks[0](x)
        return self.head(x)


class Twice(Stack):
    """Two stacks, between which gradients and modes are switched."""

    def __init__(self):
        super().__init__(3)
        self.others = nn.ModuleList(Block(inplace=True) for _ in range(3))

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().mean() + 1
        for block in self.blocks:
            x = block(x)
        x = x / scale
        for block in self.others:
            x = block(x)
        return self.head(x)


class Writing(Stack):
    """Layers that write to what they are given: of no region."""

    def forward(self, x):
        total = torch.zeros_like(x)
        for block in self.blocks:
            x = block(x)
            total.add_(x)
        return self.head(total)


class Checkpointed(Stack):
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


class Counting(Stack):
    """Buffers count the calls of each layer."""

    def __init__(self):
        super().__init__()
        for block in self.blocks:
            block.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        for block in self.blocks:
            block.calls.add_(1)
            x = block(x) * block.calls
        return self.head(x)


class Viewing(Stack):
    """A layer reads a view of the layer before, and its result is read through one."""

    def forward(self, x):
        for block in self.blocks:
            x = block(x).flip(1)[:, 1:-1]
        return self.head(x)


class Unequal(Stack):
    """Every third layer is of another kind."""

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = block(x) if number % 3 else block(x.tanh())
        return self.head(x)


def mask(grad=False):
    return torch.randn(1, 1, 6, 6, requires_grad=grad)


def tokens(rows=2):
    return torch.randn(rows, 6, WIDTH)


# Name -> model, inputs, how many calls of regions there are. The first layer's input has no gradient unless it says so: it is unlike the others.
CASES = {
    "plain": (Stack, lambda: (tokens(),), 3),
    "the input has a gradient": (Stack, lambda: (tokens().requires_grad_(),), 4),
    "a shared mask": (Stack, lambda: (tokens(), mask()), 3),
    "a shared mask with a gradient": (Stack, lambda: (tokens(), mask(True)), 3),
    "dropout": (lambda: Stack(dropout=0.2), lambda: (tokens(),), 3),
    "written in place": (lambda: Stack(inplace=True), lambda: (tokens(),), 3),
    "results of layers": (Collecting, lambda: (tokens(),), 3),
    "one layer": (Recurring, lambda: (tokens(),), 3),
    "two stacks": (Twice, lambda: (tokens(),), 5),
    "operands are written": (Writing, lambda: (tokens(),), 0),
    "checkpoints": (Checkpointed, lambda: (tokens(),), 0),
    "buffers are written": (Counting, lambda: (tokens(),), 0),
    "views": (Viewing, lambda: (torch.randn(2, 16, WIDTH),), 0),
    "unequal layers": (lambda: Unequal(9), lambda: (tokens(),), None),
    "two layers": (lambda: Stack(2), lambda: (tokens().requires_grad_(),), 0),
    "one layer alone": (lambda: Stack(1), lambda: (tokens(),), 0),
}


@pytest.fixture
def graphs(monkeypatch):
    """Joint and inference graphs as AOTAutograd hands them over, and how many calls of regions there were while it traced."""
    found, called, run = [], [], FxPipeline.run

    def watched(self, stage, gm, *settings):
        if stage in ("joint", "inference"):
            found.append(gm.graph)
        number = run(self, stage, gm, *settings)
        if stage == "trace":
            called.append(number)
        return number

    monkeypatch.setattr(FxPipeline, "run", watched)
    return found, called


def told_of(graph):
    """Of each node what it is, of what, for which line: whatever its name, and the order of those that do not need each other."""
    told = {}
    for node in graph.nodes:
        value, kind = node.meta.get("val"), None
        if isinstance(value, torch.Tensor):
            kind = (*value.shape, *value.stride(), value.storage_offset(), value.dtype)
        arguments = map_arg((node.args, node.kwargs), lambda x: told[x])
        line = node.meta.get("stack_trace")
        if "Gradient addition node" in (line or ""):  # beside the line of one or the other of what is added
            line = "added"
        called = hash((str(node.target), str(arguments), str(kind), line))
        told[node] = node.name if node.op == "placeholder" else str(called)
    return told


def shape_of(graph):
    return sorted(told_of(graph).values())


def storages_of(graph):
    """Which nodes' tensors share memory."""
    told, places = told_of(graph), {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            places.setdefault(value.untyped_storage()._cdata, []).append(told[node])
    return sorted(map(sorted, places.values()))


def by_operators(gm, inputs, **direction):
    """The graph as AOTAutograd has traced it, run as it is."""
    return boxed(lambda given: gm.forward(*given))


def trained(model, inputs, *, whole, dynamic=False, amp=False):
    """Results, gradients and buffers of a step."""
    passes = FxPipeline(frozenset(), ("outline-regions",) if whole else ())

    def backend(gm, given):
        return compile_with_autograd(gm, given, by_operators, decomposition_table(), passes=passes)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=None if dynamic else False)
    if dynamic:
        torch._dynamo.mark_dynamic(inputs[0], 0)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        results = compiled(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    if any(x.requires_grad for x in results):
        sum(x.float().square().sum() for x in results).backward()
    given = [x for x in (*model.parameters(), *inputs) if x.grad is not None]
    gradients = [x.grad for x in given]
    for x in given:
        x.grad = None
    return [*results, *gradients, *(x.clone() for x in model.buffers())]


def same(found, called, model, inputs, number, **how):
    got = trained(model, inputs, whole=False, **how)
    assert number is None or called == [number]
    for x in model.buffers():
        x.zero_()
    want = trained(model, inputs, whole=True, **how)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)
    first, second = found[: len(found) // 2], found[len(found) // 2 :]
    assert [*map(shape_of, first)] == [*map(shape_of, second)]
    return first, second


@pytest.mark.parametrize("case", CASES)
def test_a_training_step_is_as_without(graphs, case):
    make, inputs, number = CASES[case]
    first, second = same(*graphs, make(), inputs(), number)
    assert [*map(storages_of, first)] == [*map(storages_of, second)]


@pytest.mark.parametrize("how", [{"dynamic": True}, {"amp": True}, {"dynamic": True, "amp": True}], ids=str)
def test_dynamic_sizes_and_autocast(graphs, how):
    same(*graphs, Stack(dropout=0.1), (tokens(3), mask()), 3, **how)


def test_an_inference(graphs):
    with torch.no_grad():
        same(*graphs, Stack().eval(), (tokens(), mask()), 4)


def test_autocast_inside_of_the_model(graphs):
    """Regions are not looked for under a state that the graph sets, but after it."""

    class Mixed(Twice):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                for block in self.blocks:
                    x = block(x)
            for block in self.others:
                x = block(x.float())
            return self.head(x)

    same(*graphs, Mixed(), (tokens(),), 3)


def test_a_region_that_is_called_otherwise_is_traced_whole(graphs, monkeypatch):
    numbers = itertools.count()
    monkeypatch.setattr(calls, "_seen", lambda x: next(numbers))
    same(*graphs, Stack(), (tokens(),), None)
    assert graphs[1] == [3, 0, 0]


def test_what_is_traced_whole_is_told(monkeypatch):
    numbers = itertools.count()
    monkeypatch.setattr(calls, "_seen", lambda x: next(numbers))
    reset_counters()
    told = str(bascule.explain(Stack(), tokens()))
    assert "outline-regions (trace): 0 places" in told and "traced again, whole: operands are other than Dynamo" in told
    ((reason, number),) = bascule.counters()["fx_passes"].items()
    assert reason.startswith("outline-regions: traced again, whole: operands are other") and number == 1


def test_regions_that_cannot_be_traced_alone_are_told(monkeypatch):
    def broken(region, decompositions):
        raise NotATemplate("it is not to be")

    monkeypatch.setattr(outline, "template", broken)
    reset_counters()
    told = str(bascule.explain(Stack(), tokens()))
    told_of = re.search(
        r"outline-regions \(trace\): 0 places, .*; 3 regions of \d+ nodes are traced each: it is not to be", told
    )
    assert told_of, told
    assert [*bascule.counters()["fx_passes"].values()] == [1]


def test_a_result_without_a_gradient(graphs):
    """One layer's second result is looked at by nobody, another's is."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(4))

        def forward(self, x):
            total = 0.0
            for number, block in enumerate(self.blocks):
                x = block(x)
                aside = x.tanh() * 2
                total = total + (aside.detach() if number == 1 else aside).sum()
                x = x + 1
            return total

    same(*graphs, Pair(), (tokens(),), None)


def test_dynamos_graph_is_as_it_was():
    seen = []

    def backend(gm, inputs):
        before = str(gm.graph)
        compiled = compile_with_autograd(gm, inputs, by_operators, decomposition_table())
        seen.append((before, str(gm.graph), gm.code))
        return compiled

    model, x = Stack(), tokens()
    expected = model(x)
    torch.testing.assert_close(torch.compile(model, backend=backend)(x), expected)
    ((before, after, code),) = seen
    assert before == after and "call(" not in code


def test_few_nodes_are_not_worth_it():
    def f(x):
        for _ in range(find.SHORTEST - 1):
            x = (x.sin() + 1).exp()
        return x

    found = []

    def backend(gm, inputs):
        found.append(find.repeated(gm.graph))
        return gm.forward

    torch.compile(f, backend=backend)(torch.randn(3))
    assert found == [[]]
