"""Operators of the user's that write to views of tensors of dynamic sizes: whether a view stays inside of its tensor is asked of the sizes."""

import re

import pytest
import torch
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

import bascule
from bascule.tiers import background
from tests.frontend.against_eager import check
from tests.generators.mutating_operators import Program


@torch.library.custom_op("bascule_written_views::put", mutates_args={"out"})
def put(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.copy_(x * 2)
    return x + 1


put.register_fake(lambda x, out: torch.empty_like(x))


def row_of_a_copy(x, rows):
    rows = rows.clone()
    return put(x, rows[0]) + rows.sum(0), rows


def row(x, rows):
    put(x, rows[1])
    return rows.sum(0)


def end_of_a_row(x, rows):
    put(x[1:], rows[:, 1:][1])
    return rows.sum(0)


def part_of_the_memory(x, rows):
    whole = rows.view(-1)
    put(x, whole[1 : 1 + x.shape[0]])
    return whole * 2


def column(x, rows):
    put(x[: rows.shape[0]], rows.t()[1])
    return rows.cos()


def two_rows(x, rows):
    put(x, rows[1])
    put(x.sin(), rows[0])
    return rows + 1


@pytest.mark.parametrize("function", [row_of_a_copy, row, end_of_a_row, part_of_the_memory, column, two_rows])
def test_a_view_of_dynamic_sizes(function):
    calls = [(torch.randn(n), torch.randn(m, n)) for n, m in ((4, 2), (5, 4), (9, 7))]
    check(function, *calls, dynamic=True, graphs=1)


def test_what_one_size_holds_another_does_not():
    def taken(x):
        return x.as_strided((4,), (2,)) * 2

    torch._dynamo.reset()
    storage = torch.randn(40)
    call = torch.compile(taken, backend="bascule", dynamic=True)
    for size in (10, 8, 5):  # the last has three of the four elements
        torch.testing.assert_close(call(storage[:size]), taken(storage))


OPERATORS = "torch.ops.bascule_generated."
WRITES = {
    "after an operator": ("put(x0, x0)", "scale(x0[1], 3)"),
    "transposed, after an operator": ("put(x0, x0)", "scale(x0.t(), 2)"),
    "after a write to a part": ("x0[:2].zero_()", "scale(x0[1], 3)"),
    "of a view made before": ("v1 = x0[1]", "x0[:2].fill_(2)", "scale(v1, 3)"),
    "of a view made before all was written": ("v1 = x0[..., 1:]", "x0.add_(2)", "scale(v1, 3)"),
    "after a cut": ("v1 = x0.detach()", "v2 = v1.reshape(-1)", "each([v1, v1], 3)", "v1[:2].zero_()", "both(v2, v2)"),
    "two of one memory": ("scale(x0[0], 3)", "both(x0[1], x0[2])", "put(x0[1], x0)"),
}
INPUTS = {
    "from the start": "s[: 4 * n].view(n, 4)",
    "transposed": "s[: 4 * n].view(n, 4).t()",
    "from within": "s[2 : 2 + 4 * n].view(n, 4)",
    "behind what is written": "torch.empty(0).set_(s.untyped_storage(), 40, (n, 4), (4, 1))",
    "small gaps": "s.as_strided((n, 4), (5, 1))",
    "gaps": "s.as_strided((n, 4), (9, 2), 1)",
}


class Written(torch.nn.Module):
    """The lines of `WRITES` for a key, as a module."""

    def __init__(self, writes):
        super().__init__()
        self.lines = [re.sub(r"\b(put|scale|both|each)\(", OPERATORS + r"\1(", line) for line in WRITES[writes]]

    def forward(self, x0):
        names = {"torch": torch, "x0": x0}
        for line in self.lines:
            exec(line, names)
        return x0 + 0


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("writes", WRITES)
def test_places_in_a_storage_without_dynamo(writes, given, dynamic, tmp_path):
    """An exported program, and a graph of operators that write, are decomposed by us."""

    def x0():
        return eval(INPUTS[given], {"torch": torch, "s": torch.arange(1.0, 101), "n": 4})

    wanted, eager = x0(), Written(writes)
    results = eager(wanted)
    shapes = {"x0": {int(given == "transposed"): Dim.DYNAMIC}} if dynamic else None
    bascule.aot_compile(export(eager, (x0(),), dynamic_shapes=shapes), tmp_path / "program")
    traced = make_fx(lambda x0: [eager(x0)], tracing_mode="symbolic" if dynamic else "real")(x0())
    inner = bascule.compile_fx_inner(traced, [x0()])
    for call in (bascule.aot_load(tmp_path / "program"), lambda x: inner([x])[0]):
        x = x0()
        assert torch.equal(call(x), results) and torch.equal(x, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_input_of_another_call_begins_elsewhere(dynamic):
    def cut(x):
        torch.ops.bascule_generated.both(x[1], x[2])
        return x + 0

    torch._dynamo.reset()
    call = torch.compile(cut, backend="bascule", dynamic=dynamic)
    for start in (2, 0, 50, 1):
        wanted, x = (torch.arange(1.0, 101)[start : start + 16].view(4, 4) for _ in range(2))
        assert torch.equal(call(x), cut(wanted)) and torch.equal(x, wanted)


@pytest.mark.parametrize("tiers", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("writes", WRITES)
def test_places_in_a_storage(writes, given, dynamic, tiers, monkeypatch):
    """A view that an operator writes is found in the new value of its base, wherever the input begins and however it lies; by operators too,
    which run all of it in tiers."""
    body = tuple(re.sub(r"^(put|scale|both|each)", OPERATORS + r"\1", line) for line in WRITES[writes])
    program = Program((INPUTS[given],), body, ("x0",), train=False, dynamic=dynamic)
    works = []
    monkeypatch.setattr(background, "enqueue", works.append)
    monkeypatch.setattr(background, "begin", lambda: None)
    assert program.runs()
    assert not program.differences("bascule", tiers=tiers)
    assert bool(works) == tiers


def test_a_slice_of_an_input_from_within_its_storage():
    """PyTorch describes a written slice as if its base began its storage."""

    def written(x):
        x.t()[1:].fill_(2)
        torch.ops.bascule_generated.scale(x[..., :1], 3)
        torch.ops.bascule_generated.scale(x[1], 2)
        return x + 0

    torch._dynamo.reset()
    call = torch.compile(written, backend="bascule", dynamic=True)
    for size in (4, 5, 6):
        wanted, x = (torch.arange(1.0, 101)[5 : 5 + 4 * size].view(size, 4) for _ in range(2))
        assert torch.equal(call(x), written(wanted)) and torch.equal(x, wanted)
