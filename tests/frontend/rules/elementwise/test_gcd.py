"""gcd and lcm give eager's integers, whatever their signs, and of the smallest numbers too."""

import pytest
import torch

from bascule import explain
from tests.frontend.checking import INTEGERS, aten, check, specials


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Special numbers, random ones and small ones, each with each."""
    limits = torch.iinfo(dtype)
    numbers = torch.cat([specials(dtype), torch.randint(limits.min, limits.max, (60,), dtype=dtype)])
    numbers = torch.cat([numbers, torch.randint(0, 60, (30,)).to(dtype)])
    return numbers[:, None], numbers[None, :]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_gcd_is_eagers(dtype):
    check(lambda a, b: aten.gcd.default(a, b), *pairs(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_lcm_is_eagers(dtype):
    a, b = pairs(dtype)
    if dtype in (torch.int32, torch.int64):  # eager may divide the smallest number by -1, which ends the process
        a, b = (x.clamp(min=torch.iinfo(dtype).min + 1) for x in (a, b))
    check(lambda a, b: aten.lcm.default(a, b), a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_lcm_of_the_smallest_number_is_eagers_where_that_has_one(dtype):
    others = torch.tensor([0, 3, 2, torch.iinfo(dtype).min], dtype=dtype)
    smallest = torch.full_like(others, torch.iinfo(dtype).min)
    check(lambda a, b: aten.lcm.default(a, b), smallest, others, rtol=0, atol=0)


@pytest.mark.parametrize("target", ["auto", "interpret"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_compiled_code_has_lanes_that_end_at_different_steps(dtype, target):
    a, b = (x.contiguous() for x in torch.broadcast_tensors(*pairs(dtype)))

    def function(a, b):
        return torch.gcd(a, b) + 1

    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise", "target": target})
    assert torch.equal(compiled(a, b), function(a, b))


def test_sums_of_divisors_are_one_kernel():
    """A loop inside of a reduction, whose last lanes are under a mask."""
    a, b = torch.randint(1, 5000, (7, 101)), torch.randint(1, 5000, (7, 101))

    def function(a, b):
        return torch.gcd(a, b).sum(1), torch.gcd(a, b).sum(0)

    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    for got, want in zip(compiled(a, b), function(a, b)):
        assert torch.equal(got, want)
    assert not explain(function, a, b).graphs[0].aten
