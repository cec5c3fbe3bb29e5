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
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "lerp by a tensor": lambda x: torch.lerp(x, x, x),
    "round to decimals": lambda x: x.round(decimals=1),
    "glu": F.glu,
    "smooth_l1": lambda x: F.smooth_l1_loss(x, x),
}
OF_NUMBERS = {
    "abs": torch.abs,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "clamp": lambda x: x.clamp(False, True),
    "clamp by tensors": lambda x: torch.clamp(x, x, x),
    "fmod": lambda x: torch.fmod(x, x),
    "remainder": lambda x: torch.remainder(x, x),
    "trunc_divide": lambda x: torch.div(x, x, rounding_mode="trunc"),
    "gcd": lambda x: torch.gcd(x, x),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "threshold": lambda x: F.threshold(x, 1, 1),
    "dot": lambda x: torch.dot(x, x),
    "mv": lambda x: torch.mv(x.expand(2, 4), x),
    "trace": lambda x: x.view(2, 2).trace(),
    "searchsorted": lambda x: torch.searchsorted(x, x),
    "reflection": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
}
# Some whole numbers have kernels, int64 or uint8.
OF_SOME = {
    "avg_pool2d": (lambda x: F.avg_pool2d(x.view(1, 1, 2, 2), 2), [torch.int32, torch.bool]),
    "avg_pool3d": (lambda x: F.avg_pool3d(x.view(1, 1, 1, 2, 2), (1, 2, 2)), [torch.int32, torch.bool]),
    "nearest": (lambda x: F.interpolate(x.view(1, 1, 2, 2), scale_factor=2), [torch.int32, torch.bool]),
    "nearest-exact": (
        lambda x: F.interpolate(x.view(1, 1, 4), size=6, mode="nearest-exact"),
        [torch.int64, torch.bool],
    ),
    "mse": (lambda x: F.mse_loss(x, x), [torch.complex64]),
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


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_booleans(name):
    refused(OF_NUMBERS[name], torch.bool)


@pytest.mark.parametrize("name", OF_SOME)
def test_some_dtypes(name):
    function, dtypes = OF_SOME[name]
    for dtype in dtypes:
        refused(function, dtype)


@pytest.mark.parametrize("name, dtype", [("avg_pool2d", torch.int64), ("nearest", torch.uint8)], ids=str)
def test_whole_numbers_with_a_kernel(name, dtype):
    function, x = OF_SOME[name][0], torch.tensor([3, 7, 250, 9]).to(dtype)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: function(x), backend="bascule", options={"fallback": "error"})
    torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_of_booleans(rank):
    pool = getattr(F, f"max_pool{rank}d")
    refused(lambda x: pool(x.view(1, 1, *[1] * (rank - 1), 4), (*[1] * (rank - 1), 2)), torch.bool)
