"""Lanes whose elements lie anywhere in memory, are read or written one by one, or are a run under a mask: every element is that of eager,
and none outside of the tensors is touched."""

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int8, torch.uint8, torch.bool]
SIZES = [(5, 7, 11), (3, 64, 64), (2, 130, 77), (4, 1, 33)]  # rows, elements of a row, elements that are taken of it


def _compiled(function, *arguments):
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", dynamic=False)(*arguments)


def _ended(x):
    """`x` at the end of a storage that has nothing after it."""
    storage = torch.empty(x.numel(), dtype=x.dtype)
    return storage.copy_(x.flatten()).view(x.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_elements_at_places_from_data(sizes, dtype):
    rows, length, taken = sizes
    x = _ended((torch.randn(rows, length) * 50).to(dtype))
    at = torch.randint(0, length, (rows, taken))
    flat = torch.randint(-x.numel(), x.numel(), (taken, rows))
    rows_at = torch.randint(0, rows, (taken, length))

    def taking(x, at, flat, rows_at):
        return x.gather(1, at), x.take(flat), x.gather(0, rows_at), x[:, at[0]]

    for got, want in zip(_compiled(taking, x, at, flat, rows_at), taking(x, at, flat, rows_at), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lanes_a_row_apart(dtype):
    """Strides known when it is compiled and not; one tensor is stored along a dim that its memory does not run along."""
    x = (torch.randn(6, 70, 37) * 50).to(dtype)
    weight = (torch.randn(6, 37) * 50).to(dtype)

    def moved(x, w):
        y = x.transpose(1, 2)
        return y == w[:, :, None], y.reshape(6, -1), torch.empty_like(x.mT).copy_(y)

    for got, want in zip(_compiled(moved, x, weight), moved(x, weight), strict=True):
        assert torch.equal(got, want)
    dynamic = torch.compile(moved, backend="bascule", dynamic=True)
    for got, want in zip(dynamic(x, weight), moved(x, weight), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("sizes", SIZES)
def test_points_that_meet_go_in_order_along_rows(sizes, dtype, threads):
    """`scatter_add` and `scatter_reduce` along either dim: the sums are those of f64."""
    rows, length, taken = sizes
    source = (torch.randn(taken, length) * 5).to(dtype)
    at, across = torch.randint(0, rows, (taken, length)), torch.randint(0, length, (taken, length))

    def added(source, at, across):
        zeros = source.new_zeros(rows, length), source.new_zeros(taken, length)
        return (
            zeros[0].scatter_add(0, at, source),
            zeros[1].scatter_add(1, across, source),
            zeros[0].scatter_reduce(0, at, source, "amax"),
        )

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got = _compiled(added, source, at, across)
    finally:
        torch.set_num_threads(before)
    exact = added(source.to(torch.int64 if dtype == torch.int64 else torch.float64), at, across)
    for x, y in zip(got, exact, strict=True):
        torch.testing.assert_close(x, y.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1), (3, 3, 1), (4, 4, 2), (5, 3, 2), (3, 1, 1)])
def test_windows_under_masks(window, dtype):
    """Widths that are no multiple of the lanes, so that runs are read under a mask; equal elements, so that the first is to be found."""
    kernel, stride, padding = window
    for height, width in ((9, 28), (17, 57), (8, 130)):
        x = _ended(torch.randint(-3, 4, (2, 3, height, width)).to(dtype)).requires_grad_()
        twin = x.detach().double().requires_grad_()

        def pooled(x):
            return F.max_pool2d(x, kernel, stride, padding), F.avg_pool2d(x, kernel, stride, padding)

        most, mean = _compiled(pooled, x)
        exact_most, exact_mean = pooled(twin)
        weights = torch.randint(1, 9, most.shape).double()
        ((most.double() + mean.double()) * weights).sum().backward()
        ((exact_most + exact_mean) * weights).sum().backward()
        assert torch.equal(most.double(), exact_most)
        tolerance = dict(rtol=2e-2, atol=0.1) if dtype == torch.bfloat16 else dict(rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(mean.double(), exact_mean, **tolerance)
        torch.testing.assert_close(x.grad.double(), twin.grad, **tolerance)
