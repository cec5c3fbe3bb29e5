"""Reads whose lanes lie a few elements apart, and pieces of rows that lie elsewhere: every element is that of eager, none outside is touched."""

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int8, torch.bool]


def _equal(function, *arguments):
    torch._dynamo.reset()
    got = torch.compile(function, backend="bascule", dynamic=False, options={"on_error": "raise"})(*arguments)
    want = function(*arguments)
    for x, y in zip(got, want, strict=True):
        assert torch.equal(x, y)
    return got


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_every_few_elements(step, dtype):
    """The last lane is the last element of memory: the read ends there."""
    for size in (64, 77, 130):
        x = (torch.randn(5, (size - 1) * step + 1) * 50).to(dtype)
        _equal(lambda x: (x[:, ::step].clone(), x[:, step - 1 :: step] == 1), x)


def test_pairs():
    x = torch.randn(3, 258)
    _equal(lambda x: (x[:, ::2] * x[:, 1::2], x.unflatten(1, (-1, 2)).flip(-1)), x)


@pytest.mark.parametrize("shift", [0, 1, -1, 3, 99, 100, -250])
def test_rolled_rows(shift):
    x = torch.randn(7, 100)
    _equal(lambda x: (x.roll(shift, -1), x.t().roll(shift, -1), x.roll(shift, 0), x.roll((shift, 2), (0, 1))), x)
    _equal(lambda x: (x.roll((2, shift, 3), (0, 1, 1)), x.roll((shift, 100 - shift), (-1, -1))), x)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 1, 1, 1), (5, 2, 0, 3), (0, 4, 3, 0), (6, 6, 6, 6)])
def test_padded_rows(pad, mode):
    x = torch.randn(2, 3, 7, 50)
    _equal(lambda x: (F.pad(x, pad, mode=mode), F.pad(x.transpose(2, 3), (*pad[2:], *pad[:2]), mode=mode)), x)


def test_sizes_that_change():
    compiled = torch.compile(
        lambda x: (x.roll(3, -1), F.pad(x, (2, 1), mode="reflect")), backend="bascule", dynamic=True
    )
    for size in (5, 64, 131):
        x = torch.randn(4, size)
        for got, want in zip(compiled(x), (x.roll(3, -1), F.pad(x, (2, 1), mode="reflect"))):
            assert torch.equal(got, want)


@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_fewer_elements_than_lie_between_them(size, step):
    """At the end of memory, and where not every lane reads."""
    x = torch.randn((size - 1) * step + 1)
    _equal(lambda x: (x[::step].clone(), x[::step].flip(0)), x)
    row = torch.randn(1, step - 1)  # its diagonal, repeated, lies `step` elements apart
    _equal(lambda x: (torch.cat([x] * size).diagonal() * 2, torch.cat([x, x])[None].diagonal(0, 1, 2).tril()), row)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.bool])
@pytest.mark.parametrize("times", [2, 3, 4, 8, 16])
def test_repeated_elements_are_shifted(times, dtype):
    """LLVM never ended with bytes."""
    for size in (64, 100):
        x = (torch.randn(3, size) * 9).to(dtype)

        def shifted(x):
            y = x.repeat_interleave(times, -1)
            return (
                y,
                y.to(dtype) * 2,
                y.to(torch.int8) + y.to(torch.int8),
                y.to(torch.int16) << 3,
                y.flip(-1) * 3,
                y.roll(7, -1) * 2,
            )

        _equal(shifted, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int16, torch.int8])
@pytest.mark.parametrize("step", [2, 4])
def test_elements_with_zeros_between_them(step, dtype):
    """LLVM has no instructions for some such rows, of up to half of a register of 512 bits: gradients of every other column."""
    for size in [*range(18, 34, 3), 56, 88]:
        small, large = ((torch.randn(3, 5, n) * 50).to(dtype) for n in (-(-size // step), size))

        def apart(small, large):
            spread = torch.zeros_like(large)
            spread[..., ::step] = small * large[..., ::step]
            return spread, -spread

        _equal(apart, small, large)
    if dtype.is_floating_point:
        x, y = large.requires_grad_(), small
        compiled = torch.compile(
            lambda x: x[..., ::step].square() * y, backend="bascule", options={"on_error": "raise"}
        )
        (got,), (want,) = (
            torch.autograd.grad(f(x).sum(), x) for f in (compiled, lambda x: x[..., ::step].square() * y)
        )
        torch.testing.assert_close(got, want)
