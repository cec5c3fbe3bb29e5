"""1 + erf and 1 + tanh with factors, at every number of 16 bits."""

from functools import partial

import pytest
import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.values.approximations import EXP2, INSTRUCTIONS

from tests.lowering.triton.check import lowered, program, run

from .test_approximations import EVERY, LEAST, half_steps

ONE_AND = {  # where x is negative f64 itself cancels
    "erf": (lambda x: 1 + torch.erf(x), lambda x: torch.special.erfc(-x)),
    "tanh": (lambda x: torch.tanh(x) + 1, lambda x: 2 * torch.sigmoid(2 * x)),
}
FIRST = -4.0  # of erf: an f32 has nothing left of 1 + erf(x) below
SPELLED = {  # function of x and f -> what it multiplies 1 + f(k * x) with, and k
    "half": (lambda x, f: 0.5 * (1 + f(x)), lambda x: 0.5, 1.0),
    "third after": (lambda x, f: (f(x * 2) + 1) / 3, lambda x: 1 / 3, 2.0),
    "times x": (lambda x, f: x * 0.5 * (1 + f(x / 1.5)), lambda x: x / 2, 1 / 1.5),
    "gelu": (lambda x, f: 0.5 * x * (1 + f(x * 0.7)), lambda x: x / 2, 0.7),
    "half last": (lambda x, f: x * (1 + f(0.7 * x)) * 0.5, lambda x: x / 2, 0.7),
    "another factor": (lambda x, f: (x - 1) * 3 * (1 + f(x)), lambda x: 3 * (x - 1), 1.0),
    "negative": (lambda x, f: -0.5 * (1 + f(x)), lambda x: -0.5, 1.0),
    "turned": (lambda x, f: 1 + f(-x * 0.5), lambda x: 1, -0.5),
    "steep": (lambda x, f: 1 + f(x * 1e6), lambda x: 1, 1e6),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ONE_AND)
def test_one_and_a_function(name, dtype):
    """Is rounded as the exact value is where f32 has something left of the sum, and next to nothing below."""
    function, exact = ONE_AND[name]
    x = EVERY.view(dtype)
    (got,) = run(program(lambda x: function(x.float()).to(dtype), x), [x])
    want = exact(x.double())
    assert torch.equal(got.isnan(), want.isnan())
    seen = ~want.isnan() & ((want == 0) | (want.abs() >= LEAST)) & ((x >= FIRST) if name == "erf" else True)
    assert half_steps(dtype, got[seen], want[seen]).max() <= 1.02
    below = x < FIRST
    assert got[below].min() >= 0 and got[below].max() <= exact(torch.tensor(FIRST).double()) * 1.01


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("name", ONE_AND)
def test_factors_are_in_the_coefficients(name, spelled):
    """However they are spelled; infinities and NaN are as without."""
    function, factor, k = SPELLED[spelled]
    x = EVERY.view(torch.bfloat16)
    whole = partial(function, f=getattr(torch, name))
    (got,) = run(program(lambda x: whole(x.float()).bfloat16(), x), [x])
    want = factor(x.double()) * ONE_AND[name][1](k * x.double())
    small = x.abs() <= 1e30  # times a factor it does not overflow
    alike = small | ~x.isfinite()
    assert torch.equal(got.isnan() & alike, whole(x.float()).isnan() & alike)
    seen = small & ((want == 0) | (want.abs() >= LEAST))
    if name == "erf":
        seen &= k * x >= FIRST
    assert half_steps(torch.bfloat16, got[seen], want[seen]).max() <= 1.02


def gelu(approximate: str, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x.float(), approximate=approximate).bfloat16()


def test_gelu_is_no_further_from_the_truth_than_eager():
    """1 + erf(x) leaves little of erf where x is very negative."""
    x = EVERY.view(torch.bfloat16)
    x = x[x.abs() <= 8]
    for approximate in ("none", "tanh"):
        function = partial(gelu, approximate)
        (got,) = run(program(function, x), [x])
        exact = torch.nn.functional.gelu(x.double(), approximate=approximate)
        ours, theirs = ((y.double() - exact).abs().max() for y in (got, function(x)))
        assert ours <= theirs * 1.01
        small = exact.abs() < 1e-3
        assert (got.double() - exact)[small].abs().max() <= 1e-5


@pytest.mark.parametrize(("approximate", "products"), [("none", 1), ("tanh", 5)])
def test_a_gelu_has_no_factors_of_its_own(approximate, products):
    """Of tanh: x * x * x, times a constant, which is added to x, times one, and the result."""
    x = torch.randn(64).bfloat16()
    (kernel,) = lowered(program(partial(gelu, approximate), x)).values()
    used = compile_kernel(kernel, 90).asm["ttgir"]
    assert used.count("arith.mulf") == products and any(text in used for text in INSTRUCTIONS)


SHARED = {  # function of x and 1 + erf(x) -> results
    "the sum": lambda x, total: (total / 3, x * total),
    "a product": lambda x, total: ((p := x * total) / 3, p * 5),
    "a multiple": lambda x, total: ((p := total / 3) * x, p * 5 * (x - 1)),
    "a multiple of a product": lambda x, total: ((p := x * total / 3) / 7, p * 5),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_several_read_is_computed_once(name):
    def both(x: torch.Tensor) -> list[torch.Tensor]:
        return [each.bfloat16() for each in SHARED[name](x.float(), 1 + torch.erf(x.float()))]

    x = EVERY.view(torch.bfloat16)
    x = x[x.abs() <= 4]
    (kernel,) = lowered(program(both, x)).values()
    assert compile_kernel(kernel, 90).asm["ttgir"].count(EXP2) == 1
    wanted = SHARED[name](x.double(), torch.special.erfc(-x.double()))
    for result, exact in zip(run(program(both, x), [x]), wanted):
        assert half_steps(torch.bfloat16, result, exact).max() <= 1.02
