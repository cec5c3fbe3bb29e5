"""Random numbers on a GPU are those of the CPU; and what a GPU does in loops: products by atomics, whole powers."""

import pytest
import torch

from tests.frontend.rules.calls.random_cases import (
    FUNCTIONS,
    SIZES,
    check_recomputed,
    flat,
    recomputed,
    same,
    seed,
    uniform,
)


def compiled(function, dynamic: bool = False):
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_numbers_of_the_cpu(function):
    for sizes in [*SIZES, (1000, 4099), (4096, 1024)]:
        x = torch.randn(sizes)
        same(compiled(function)(x.cuda(), seed().cuda()), compiled(function)(x, seed()))


def test_dynamic_sizes():
    inputs = [torch.randn(sizes) for sizes in ((7, 13), (16, 32), (5, 1026))]
    want = [compiled(uniform)(x, seed()) for x in inputs]
    call = compiled(uniform, dynamic=True)
    for x, y in zip(inputs, want):
        same(call(x.cuda(), seed().cuda()), y)


def test_a_recomputed_dropout():
    check_recomputed(compiled(recomputed), "cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16], ids=str)
def test_products_by_atomics(dtype):
    """Many sources at one place at a time; whole numbers, so that the order does not matter."""
    x = torch.randint(1, 3, (17,)).to(dtype)
    source = torch.ones(100_000, dtype=dtype)
    source[::9000] = -2
    index = torch.randint(0, 17, (100_000,))

    def function(x, index, source):
        return torch.scatter_reduce(x, 0, index, source, "prod")

    (got,) = flat(compiled(function)(x.cuda(), index.cuda(), source.cuda()))
    assert torch.equal(got, function(x, index, source))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_whole_powers(dtype):
    x, n = torch.arange(-30, 30).to(dtype).reshape(-1, 1), torch.arange(0, 40).to(dtype)
    (got,) = flat(compiled(lambda x, n: x.pow(n))(x.cuda(), n.cuda()))
    assert torch.equal(got, x.pow(n))
