"""Mutation and aliasing: each situation, compiled, behaves as eager does. Values, strides, who shares memory with whom, gradients."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest
import torch
from torch.testing import assert_close


@dataclass(frozen=True)
class Situation:
    """`inputs()` gives the same arguments each time it is called with one seed."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], list[Any]]
    dynamic: bool = False
    marks: list = field(default_factory=list)


def r(*sizes: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes, dtype=dtype).requires_grad_(grad)


def add_in_place(x, y):
    x.add_(y)
    return x * 2


def mutate_view(x):
    x[1:3].mul_(2)
    return x.sum(0)


def mutate_twice(x, y):
    x.add_(y)
    z = x * y
    x.mul_(z)
    return z


def mutate_and_return(x):
    return x.add_(1)


def mutate_transposed(x, y):
    x.t().add_(y)
    return x + 1


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


def mutate_by_shifted_self(x):
    x[1:] = x[:-1] + x[1:]
    return x.sum()


def mutate_by_transposed_self(x):
    x.copy_(x.t() * 2)


def read_before_and_after(x, y):
    a = x @ y
    x.mul_(2)
    return a, x @ y


def put_rows(cache, rows, index):
    cache[index] = rows
    return cache.sum(-1)


def put_then_read_old(cache, rows, index):
    old = cache * 1
    cache[index] = rows
    return old - cache


def accumulate(total, values, index):
    total.index_add_(0, index, values)
    return total.relu()


def optimizer(ps, gs, ms):
    for p, g, m in zip(ps, gs, ms):
        m.mul_(0.9).add_(g, alpha=0.1)
        p.sub_(m * 0.01)


def expanded_sum(x):
    return x * 2 + x.sum(0)


def shapes_and_none(x):
    return None, x.shape[0], 2.5, True, (x + 1), x.shape[0] * 3


def misaligned() -> torch.Tensor:
    return torch.randn(4 * 33 + 3)[3:].view(4, 33)


def odd_bytes() -> torch.Tensor:
    """Floats that start at a byte that is no multiple of 16."""
    return torch.randn(65)[1:].view(8, 8)


SITUATIONS = [
    Situation("input mutated", add_in_place, lambda: [r(4, 5), r(4, 5)]),
    Situation("input mutated through a view", mutate_view, lambda: [r(6, 3)]),
    Situation("input mutated twice", mutate_twice, lambda: [r(4, 5), r(4, 5)]),
    Situation("mutated input returned", mutate_and_return, lambda: [r(4, 5)]),
    Situation("input mutated through its transpose", mutate_transposed, lambda: [r(4, 5), r(5, 4)]),
    Situation("inputs swapped", swap, lambda: [r(4, 5), r(4, 5)]),
    Situation("input mutated by its neighbours", mutate_by_shifted_self, lambda: [r(9)]),
    Situation("input mutated by its transpose", mutate_by_transposed_self, lambda: [r(5, 5)]),
    Situation("input read before and after a mutation", read_before_and_after, lambda: [r(4, 4), r(4, 4)]),
    Situation("strided input mutated", add_in_place, lambda: [r(5, 4).t(), r(4, 5)]),
    Situation("slice of a tensor mutated", add_in_place, lambda: [r(8, 5)[::2], r(4, 5)]),
    Situation("rows put in place", put_rows, lambda: [r(6, 3), r(2, 3), torch.tensor([4, 1])]),
    Situation("rows put, old rows needed", put_then_read_old, lambda: [r(6, 3), r(2, 3), torch.tensor([4, 1])]),
    Situation("rows put more than once", put_rows, lambda: [r(6, 3), r(3, 3), torch.tensor([4, 1, 4])]),
    Situation("rows added in place", accumulate, lambda: [r(6, 3), r(3, 3), torch.tensor([4, 1, 4])]),
    Situation("optimizer step", optimizer, lambda: [[r(3, 4), r(7)], [r(3, 4), r(7)], [r(3, 4), r(7)]]),
    Situation("mutation by a broadcast value", lambda x, y: x.mul_(y), lambda: [r(4, 5), r(5)]),
    Situation("mutation that converts", lambda x, y: x.copy_(y), lambda: [r(4, 5), r(4, 5, dtype=torch.float64)]),
    Situation("filled", lambda x: x.zero_(), lambda: [r(4, 5)]),
    Situation("view of an input returned", lambda x: (x.t(), x + 1), lambda: [r(4, 5)]),
    Situation("slice of an input returned", lambda x: x[1:, 2], lambda: [r(4, 5)]),
    Situation("input returned", lambda x: (x, x * 2), lambda: [r(4, 5)]),
    Situation("view of a mutated input returned", lambda x: x.add_(1).t(), lambda: [r(4, 5)]),
    Situation("outputs alias each other", lambda x: (lambda y: (y, y.t(), y[1:]))(x * 2), lambda: [r(4, 5)]),
    Situation("one output twice", lambda x: (lambda y: (y, y, x))(x * 2), lambda: [r(4, 5)]),
    Situation("input given twice", lambda x, y: x * y + 1, lambda: (lambda x: [x, x])(r(4, 5))),
    Situation("input given twice, mutated", add_in_place, lambda: (lambda x: [x, x])(r(4, 5))),
    Situation(
        "inputs that overlap, one mutated",
        lambda x, y: x.add_(1).sum() + y,
        lambda: (lambda x: [x[:4], x[2:]])(r(6, 5)),
    ),
    Situation(
        "base and its view as inputs, base mutated",
        lambda x, y: x.add_(1)[0] * y,
        lambda: (lambda x: [x, x[0]])(r(4, 5)),
    ),
    Situation("expanded input", expanded_sum, lambda: [r(1, 5).expand(4, 5)]),
    Situation("input with a storage offset", expanded_sum, lambda: [r(8, 5)[3:]]),
    Situation("input with gaps", expanded_sum, lambda: [r(8, 10)[:, ::2]]),
    Situation("misaligned input", expanded_sum, lambda: [misaligned()]),
    Situation("misaligned input mutated", add_in_place, lambda: [odd_bytes(), odd_bytes()]),
    Situation("empty input", expanded_sum, lambda: [r(0, 5)]),
    Situation("empty along the last dimension", lambda x: (x * 2, x.sum(1)), lambda: [r(4, 0)]),
    Situation("empty operands of a matrix product", lambda x, y: x @ y + 1, lambda: [r(4, 0), r(0, 3)]),
    Situation("0-d input", lambda x, y: (x * 2, x + y), lambda: [r(), r(3)]),
    Situation("0-d input mutated", lambda x, y: x.add_(y.sum()), lambda: [r(), r(3)]),
    Situation("None and numbers among outputs", shapes_and_none, lambda: [r(4, 5)]),
    Situation("the same, dynamic", shapes_and_none, lambda: [r(4, 5)], dynamic=True),
    Situation("nothing returned", lambda x: None, lambda: [r(4)]),
    Situation("constant returned", lambda x: torch.arange(3), lambda: [r(4)]),
    Situation("tensor constant used", lambda x: x + torch.tensor([1.0, 2.0, 3.0]), lambda: [r(4, 3)]),
    Situation("transposed output", lambda x: x.t() * 2, lambda: [r(4, 5)]),
    Situation(
        "channels-last output", lambda x: torch.relu(x), lambda: [r(2, 3, 4, 5).to(memory_format=torch.channels_last)]
    ),
    Situation("permuted output", lambda x: (x + 1).permute(2, 0, 1), lambda: [r(2, 3, 4)]),
    Situation(
        "output with dimensions of 1", lambda x: (x.sum(1, keepdim=True), x.t().unsqueeze(0) + 1), lambda: [r(4, 5)]
    ),
    Situation("expanded output", lambda x: x.sum(0).expand(3, 5), lambda: [r(4, 5)]),
    Situation("number as input", lambda x, n: x * n, lambda: [r(4, 5), 3]),
    Situation("gradient", lambda x, w: torch.tanh(x @ w), lambda: [r(4, 5, grad=True), r(5, 3, grad=True)]),
    Situation("gradient of one input", lambda x, w: (x @ w).exp(), lambda: [r(4, 5), r(5, 3, grad=True)]),
    Situation("gradient through a view that is returned", lambda x: (x.t(), x[1:] * 2), lambda: [r(4, 5, grad=True)]),
    Situation(
        "gradient through aliases of an output", lambda x: (lambda y: (y, y.t()))(x * 2), lambda: [r(4, 5, grad=True)]
    ),
    Situation(
        "gradient, a leaf's product mutated",
        lambda x, w: (x * w).add_(1).relu_(),
        lambda: [r(4, 5, grad=True), r(4, 5)],
    ),
    Situation("gradient, input mutated", lambda x, b: (b.mul_(0.9), x * b)[1], lambda: [r(4, 5, grad=True), r(4, 5)]),
    Situation("gradient, expanded input", expanded_sum, lambda: [r(1, 5, grad=True).expand(4, 5)]),
    Situation(
        "gradient, dynamic",
        lambda x, w: torch.softmax(x @ w, -1),
        lambda: [r(4, 5, grad=True), r(5, 3, grad=True)],
        dynamic=True,
    ),
    Situation("mutation, dynamic", add_in_place, lambda: [r(4, 5), r(4, 5)], dynamic=True),
    Situation("aliases, dynamic", lambda x: (x.t(), (x * 2)[1:], x[2:]), lambda: [r(4, 5)], dynamic=True),
    Situation(
        "chain in the arena, dynamic",
        lambda x, w: ((x @ w).sin() @ w).cos() @ w,
        lambda: [r(7, 5), r(5, 5)],
        dynamic=True,
    ),
    Situation("chain in the arena", lambda x, w: ((x @ w).sin() @ w).cos() @ w, lambda: [r(7, 5), r(5, 5)]),
]


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value for t in tensors_in(part)] if isinstance(value, list | tuple) else []


def run(
    situation: Situation, function: Callable[..., Any]
) -> tuple[Any, list[torch.Tensor], list[torch.Tensor | None]]:
    """Outputs, inputs after the call, gradients."""
    torch.manual_seed(0)
    inputs = situation.inputs()
    outputs = function(*inputs)
    leaves = [t for t in tensors_in(inputs) if t.requires_grad]
    gradients: list[torch.Tensor | None] = []
    if leaves:
        ends = [t for t in tensors_in(outputs) if t.requires_grad]
        gradients = list(
            torch.autograd.grad(ends, leaves, [torch.ones_like(t).cumsum(0) for t in ends], allow_unused=True)
        )
    return outputs, tensors_in(inputs), gradients


def strides(tensor: torch.Tensor) -> list[int]:
    """The strides of dimensions longer than 1: those of the others say nothing."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]


def sharing(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """The pairs that share memory."""
    where = [t.untyped_storage().data_ptr() if t.numel() else -1 - i for i, t in enumerate(tensors)]
    return [(i, j) for i, j in combinations(range(len(tensors)), 2) if where[i] == where[j]]


@pytest.mark.parametrize("situation", SITUATIONS, ids=[s.name for s in SITUATIONS])
def test_as_eager(situation):
    torch._dynamo.reset()
    compiled = torch.compile(
        situation.function, backend="bascule", options={"on_error": "raise"}, dynamic=situation.dynamic, fullgraph=True
    )
    for _ in range(2):  # the second call meets memory that the first has used
        outputs, inputs, gradients = run(situation, compiled)
        wanted_outputs, wanted_inputs, wanted_gradients = run(situation, situation.function)
        assert_close(outputs, wanted_outputs)
        assert_close(inputs, wanted_inputs)
        assert_close(gradients, wanted_gradients)
        made, wanted = tensors_in(outputs), tensors_in(wanted_outputs)
        assert list(map(strides, made)) == list(map(strides, wanted))
        assert [t.requires_grad for t in made] == [t.requires_grad for t in wanted]
        assert sharing(inputs + made) == sharing(wanted_inputs + wanted)


class Counter(torch.nn.Module):
    """A buffer that every call changes."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)
        self.norm = torch.nn.BatchNorm1d(5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return self.norm(self.linear(x)) + self.calls


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_module_buffers(training, grad):
    torch._dynamo.reset()
    modules = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = Counter().double().train(training)
        called = torch.compile(module, backend="bascule", options={"on_error": "raise"}) if compiled else module
        with torch.set_grad_enabled(grad):
            outputs = [called(torch.randn(4, 5, dtype=torch.float64)) for _ in range(3)]
        if grad:
            sum(o.square().sum() for o in outputs).backward()
        modules.append((module, outputs))
    (eager, wanted), (ours, outputs) = modules
    assert_close(outputs, wanted)
    assert_close(dict(ours.named_buffers()), dict(eager.named_buffers()))
    assert_close([p.grad for p in ours.parameters()], [p.grad for p in eager.parameters()])
