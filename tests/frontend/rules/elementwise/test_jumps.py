"""Functions that jump, of numbers in 16 bits that the graph made: they see what is stored, as eager's do."""

import pytest
import torch

BOUNDARIES = torch.linspace(-3, 3, 49)
JUMPS = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "round to tens": lambda x: torch.round(x, decimals=-1),
    "frac": torch.frac,
    "sign": lambda x: (x * 1e-5 * 1e-36 * 1e-4).sign(),
    "heaviside": lambda x: torch.heaviside(x * 1e-5 * 1e-36 * 1e-4, x),
    "to integers": lambda x: x.to(torch.int32),
    "to bytes": lambda x: x.abs().to(torch.uint8),
    "to booleans": lambda x: (x * 1e-5 * 1e-36 * 1e-4).bool(),
    "floor_divide": lambda x: x // 1.5,
    "truncated division": lambda x: torch.div(x, 1.5, rounding_mode="trunc"),
    "remainder": lambda x: x.remainder(1.5),
    "fmod": lambda x: x.fmod(1.5),
    "hardshrink": lambda x: torch.nn.functional.hardshrink(x, 20.5),
    "frexp": torch.frexp,
    "nextafter": lambda x: torch.nextafter(x, -x),
    "bucketize": lambda x: torch.bucketize(x, 8 * BOUNDARIES.to(x.dtype)),
    "searchsorted": lambda x: torch.searchsorted(8 * BOUNDARIES.to(x.dtype), x, right=True),
    "isin": lambda x: torch.isin(x, 8 * BOUNDARIES.to(x.dtype)),
    "ge": lambda x: x >= 5.0,
    "argmax": lambda x: x.argmax(-1),
    "max": lambda x: x.max(-1),
    "cummin": lambda x: x.cummin(-1),
}


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", JUMPS)
def test_a_jump_sees_the_rounded_number(name, dtype, target):
    def function(x):
        return JUMPS[name](x * 11)

    torch._dynamo.reset()
    x = torch.randn(5, 67, generator=torch.Generator().manual_seed(3)).to(dtype)
    options = {"on_error": "raise", **({} if target == "cpu" else {"target": target})}
    got, want = torch.compile(function, backend="bascule", options=options)(x), function(x)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_others_see_more():
    """A smooth function is computed of the number before its rounding: its result is nearer to that in f64."""
    x = torch.randn(64, 67).bfloat16()

    def function(x):
        return (x * 11).float().exp().log()

    torch._dynamo.reset()
    got = torch.compile(function, backend="bascule", options={"on_error": "raise"})(x)
    wanted = x.double() * 11
    assert (got - wanted).abs().mean() < (function(x) - wanted).abs().mean() / 4
