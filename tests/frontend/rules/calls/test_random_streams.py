"""Random numbers through the backend: the CPU, the interpreter of Triton IR and dynamic sizes agree; a backward draws what its forward drew."""

import pytest
import torch

from tests.frontend.rules.calls.random_cases import FUNCTIONS, SIZES, check_recomputed, recomputed, same, seed, uniform


def compiled(function, target: str = "cpu", dynamic: bool = False):
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", dynamic=dynamic, options={"target": target, "on_error": "raise"})


@pytest.mark.parametrize("function", FUNCTIONS)
def test_targets_agree(function):
    for sizes in SIZES[:4]:
        x = torch.randn(sizes)
        want = compiled(function)(x, seed())
        same(compiled(function, "interpret")(x, seed()), want)


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_dynamic_sizes_draw_the_same(target):
    inputs = [torch.randn(sizes) for sizes in ((7, 13), (16, 32), (5, 1026))]
    want = [compiled(uniform)(x, seed()) for x in inputs]
    call = compiled(uniform, target, dynamic=True)
    for x, y in zip(inputs, want):
        assert torch.equal(call(x, seed()), y)


def test_threads_draw_the_same():
    x, threads = torch.randn(300, 1001), torch.get_num_threads()
    call = compiled(uniform)
    want = call(x, seed())
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        assert torch.equal(call(x, seed()), want)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_a_recomputed_dropout_is_the_same(target):
    check_recomputed(compiled(recomputed, target))
