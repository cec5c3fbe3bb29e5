"""Operators on dtypes that eager has no kernel for: ATen is called, and refuses as in eager."""

import pytest
import torch
from torch.nn import functional as F

FLOATS = (torch.float64, torch.bfloat16)
WHOLE = (torch.int64, torch.int8)
OF_WHOLE_NUMBERS = {
    "and": lambda x: x & x,
    "or with a number": lambda x: x | 3,
    "xor": lambda x: x ^ x,
    "gcd": lambda x: torch.gcd(x, x),
    "lcm": lambda x: torch.lcm(x, x),
}
OF_FLOATS = {
    "frac": torch.frac,
    "hypot": lambda x: torch.hypot(x, x),
    "logaddexp": lambda x: torch.logaddexp(x, x),
    "nextafter": lambda x: torch.nextafter(x, x),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
}


def refused(function, dtype):
    """Eager and compiled code raise one exception."""
    x = torch.ones(4, dtype=dtype)
    with pytest.raises(NotImplementedError) as eager:
        function(x)
    torch._dynamo.reset()
    with pytest.raises(NotImplementedError) as compiled:
        torch.compile(lambda x: function(x), backend="bascule", options={"on_error": "raise"})(x)
    assert str(eager.value).partition(" not implemented for ")[2] in str(compiled.value)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", OF_WHOLE_NUMBERS)
def test_floats(name, dtype):
    refused(OF_WHOLE_NUMBERS[name], dtype)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("name", OF_FLOATS)
def test_whole_numbers(name, dtype):
    refused(OF_FLOATS[name], dtype)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_of_booleans(rank):
    pool = getattr(F, f"max_pool{rank}d")
    refused(lambda x: pool(x.view(1, 1, *[1] * (rank - 1), 4), (*[1] * (rank - 1), 2)), torch.bool)
