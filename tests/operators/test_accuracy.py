"""The comparison of programs finds errors that are planted, in every dtype, and lets roundings pass."""

import pytest
import torch

from tests.operators.accuracy import differences, steps_between

FLOATS = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
COUNT = 20_000
PLACES = [7, 500, 12_345, 19_999]


def numbers(dtype: torch.dtype, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Of f64, none small beside the others, and rounded: what eager gives."""
    x = torch.randn(COUNT, dtype=torch.float64)
    exact = x.sign() * (0.5 + x.abs()) * scale
    return exact, exact.to(dtype, copy=True)


def moved(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """As many representable numbers away from zero, or towards it."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return (x.view(bits) + steps.to(bits)).view(x.dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
class TestFloats:
    def test_three_steps_pass(self, dtype):
        exact, want = numbers(dtype)
        assert not differences("x", want, want, exact)
        noise = torch.randint(-1, 2, (COUNT,)) * 3
        got = moved(want, noise)
        assert int(steps_between(got, want).max()) == 3
        assert not differences("x", got, want, exact)

    def test_four_zeros_in_twenty_thousand(self, dtype):
        exact, want = numbers(dtype)
        got = want.clone()
        got[PLACES] = torch.zeros(4).to(dtype)
        (found,) = differences("x", got, want, exact)
        assert "4 of 20000" in found

    def test_a_sign(self, dtype):
        exact, want = numbers(dtype)
        got = want.clone()
        got[7] = (-want[7].double()).to(dtype)
        assert "1 of 20000" in differences("x", got, want, exact)[0]

    def test_no_number_for_a_number_and_the_reverse(self, dtype):
        exact, want = numbers(dtype)
        got = want.clone()
        got[7] = torch.tensor(torch.nan).to(dtype)
        assert "1 of 20000" in differences("x", got, want, exact)[0]
        exact[7] = torch.nan
        assert "1 of 20000" in differences("x", want, got, exact)[0]
        assert not differences("x", got, got, exact)

    def test_zeros_among_small_numbers(self, dtype):
        small = torch.finfo(dtype).smallest_normal * 16
        exact, want = numbers(dtype, max(small, 1e-30))
        got = want.clone()
        got[PLACES] = torch.zeros(4).to(dtype)
        assert "4 of 20000" in differences("x", got, want, exact)[0]


def test_what_cancels_may_be_off_by_what_eager_is():
    exact = torch.full((COUNT,), 1e-7, dtype=torch.float64)
    want = (exact + 1e-6 * torch.randn(COUNT, dtype=torch.float64)).float()
    got = (exact + 1e-6 * torch.randn(COUNT, dtype=torch.float64)).float()
    assert not differences("x", got, want, exact)


@pytest.mark.parametrize("value", [torch.tensor([True, False, True]), torch.tensor([3, -7, 1 << 60])], ids=str)
def test_booleans_and_integers_are_exact(value):
    wrong = value.clone()
    wrong[1] = ~wrong[1] if value.dtype == torch.bool else wrong[1] + 1
    assert not differences("x", value, value, value)
    assert "1 of 3" in differences("x", wrong, value, value)[0]


def test_an_infinity_is_no_number():
    exact = torch.tensor([1.0, torch.inf, -torch.inf], dtype=torch.float64)
    want = exact.float()
    assert not differences("x", want, want, exact)
    assert "1 of 3" in differences("x", torch.tensor([1.0, -torch.inf, -torch.inf]), want, exact)[0]
    assert "1 of 3" in differences("x", torch.tensor([1.0, 3e38, -torch.inf]), want, exact)[0]
