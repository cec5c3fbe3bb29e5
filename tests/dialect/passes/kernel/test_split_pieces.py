"""Tensors put together from many pieces: what is made of them grows with the pieces, not with their square, and is right."""

import pytest
import torch
from bascule.dialect.ir.regions import ops_in
from bascule.lowering.cpu.jit import compilation

import bascule

OPTIONS = {"on_error": "raise"}


def matrices(count):
    return [torch.randn(7, 10) for _ in range(count)]


def uneven(count):
    return [torch.randn(7, 1 + n % 5) for n in range(count)]


CASES = {
    "rows": (lambda *xs: torch.cat(xs), matrices),
    "columns": (lambda *xs: torch.cat(xs, 1), matrices),
    "columns of other lengths": (lambda *xs: torch.cat(xs, 1), uneven),
    "computed columns": (lambda *xs: torch.cat([x.exp() * n for n, x in enumerate(xs)], 1).relu(), uneven),
    "transposed columns": (lambda *xs: torch.cat([x.t() for x in xs], 1), matrices),
    "stack": (lambda *xs: torch.stack(xs), matrices),
    "stack along the last": (lambda *xs: torch.stack(xs, -1), matrices),
    "numbers": (lambda *xs: torch.stack(xs), lambda count: [torch.randn(()) for _ in range(count)]),
    "bf16": (lambda *xs: torch.cat(xs, 1), lambda count: [x.bfloat16() for x in uneven(count)]),
    "two of them": (lambda *xs: torch.cat(xs, 1) + torch.cat(xs[::-1], 1), matrices),
}


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", options=OPTIONS, dynamic=False)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [2, 3, 5, 33])
def test_elements_are_those_of_eager(name, count):
    function, make = CASES[name]
    inputs = make(count)
    torch.testing.assert_close(compiled(function)(*inputs), function(*inputs))


@pytest.mark.parametrize("name", CASES)
def test_code_grows_with_the_pieces(name, monkeypatch):
    """Counts ops of the code of four times as many pieces: no more than five times as many."""
    sizes = []
    lower = compilation.lower_kernels

    def counting(*arguments):
        found = lower(*arguments)
        sizes.append(len(ops_in(found[0].operation)))
        return found

    monkeypatch.setattr(compilation, "lower_kernels", counting)
    function, make = CASES[name]
    counts = []
    for count in (16, 64):
        sizes.clear()
        bascule.explain(function, *make(count), options=OPTIONS)
        counts.append(sum(sizes))
    assert 0 < counts[1] <= 5 * counts[0]


def test_a_kernel_takes_more_arguments_than_a_call_can_have():
    inputs = [torch.randn(3) for _ in range(1100)]
    want = torch.stack(inputs)
    assert torch.equal(compiled(lambda *xs: torch.stack(xs))(*inputs), want)
