"""Sizes that are quotients by quotients: what passes assume of their symbols may divide by zero."""

import pytest
import torch

PROGRAMS = {
    "rows of a view": lambda x, n: x.reshape(x.shape[0], n, x.shape[1] // n).softmax(-1),
    "an operator's result": lambda x, n: x.view(-1, x.shape[1] // n).sort(-1).values,
    "a product": lambda x, n: x.new_ones(x.shape[1] // n, x.shape[1]) @ x.t(),
    "windows": lambda x, n: x.unfold(1, n, n).mean(-1),
    "a difference": lambda x, n: x.new_ones(x.shape[1] // (x.shape[1] - x.shape[0]), n) + 1,
}


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("least", [3, 80, 1000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes(name, least, target):
    torch._dynamo.reset()

    def function(x):
        wide = x.float() * 2
        few, many = PROGRAMS[name](wide, x.shape[1] // least), PROGRAMS[name](wide, x.shape[1] // (x.shape[1] // least))
        return few + 1, many @ many.transpose(-1, -2)

    options = {"target": target, "on_error": "raise"}
    compiled = torch.compile(function, backend="bascule", dynamic=True, options=options)
    for rows, times in ((2, 2), (3, 3)):
        x = torch.randn(rows, times * least, generator=torch.Generator().manual_seed(rows))
        for got, want in zip(compiled(x), function(x.double()), strict=True):
            torch.testing.assert_close(got.double(), want.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_strides_of_sizes_that_divide_by_no_less_than_one(target):
    """The divisor of a size is no size, though it looks as the factors do that PyTorch makes strides of."""
    torch._dynamo.reset()

    def function(x, z):
        few = z.shape[0] // max(1, x.shape[1] // x.shape[0])
        wide = torch.nn.functional.pad(x, (few, 0))
        return wide * 2, wide.sort(1).values, wide.t() @ wide

    options = {"target": target, "on_error": "raise"}
    compiled = torch.compile(function, backend="bascule", dynamic=True, options=options)
    for rows, columns in ((9, 4), (7, 3), (3, 9)):
        given = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)), torch.randn(8)
        for got, want in zip(compiled(*given), function(*given), strict=True):
            torch.testing.assert_close(got, want)


PLACES = {
    "a border": lambda x, n: torch.nn.functional.pad(x, (n, n)),
    "a negative border": lambda x, n: torch.nn.functional.pad(x, (-(n // 2), n)),
    "from a place": lambda x, n: x[n:],
    "as many from the end": lambda x, n: x[-n:],
}


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize(
    "count", [lambda s: -(-s // 7), lambda s: -((-s - 5) // 7), lambda s: (s + 6) // 7], ids=["up", "a sum up", "down"]
)
def test_places_by_quotients_rounded_up(count, name, target):
    """A quotient of a negative number is negative, and what is subtracted of it is not."""
    torch._dynamo.reset()

    def function(x):
        return PLACES[name](x, count(x.shape[0])) * 2

    compiled = torch.compile(function, backend="bascule", dynamic=True, options={"target": target, "on_error": "raise"})
    for rows in (9, 30):
        x = torch.randn(rows, 12, generator=torch.Generator().manual_seed(rows))
        torch.testing.assert_close(compiled(x), function(x))
