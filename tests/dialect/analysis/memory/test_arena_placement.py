"""Where buffers are placed: properties that hold for every graph."""

import torch
from bascule.dialect.analysis.memory.arena_placement import ALIGNMENT, Interval, aligned, color, largest_live_set, place
from hypothesis import given, settings
from hypothesis import strategies as st

lives = st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from([0, 4, 64, 100, 256, 1000, 4096, 10000]))
interval_lists = st.lists(lives.map(lambda t: Interval(t[0], t[0] + t[1], t[2])), max_size=40)


def meet(a: Interval, b: Interval) -> bool:
    return a.first <= b.last and b.first <= a.last


@settings(deadline=None)
@given(interval_lists)
def test_places_do_not_overlap(intervals):
    offsets, total = place(intervals)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    assert total >= largest_live_set(intervals)
    for i, (a, x) in enumerate(zip(intervals, offsets)):
        assert a.size == 0 or x + a.size <= total
        for b, y in zip(intervals[:i], offsets):
            assert not meet(a, b) or x + aligned(a.size) <= y or y + aligned(b.size) <= x or 0 in (a.size, b.size)


def test_a_chain_takes_two_places():
    offsets, total = place([Interval(i, i + 1, 1000) for i in range(50)])
    assert total == 2 * aligned(1000)
    assert set(offsets) == {0, aligned(1000)}


def test_buffers_of_all_sizes_stay_near_the_lower_bound():
    intervals = [Interval(i, i + 3 + i % 7, 1000 * (1 + (i * 37) % 11)) for i in range(300)]
    _, total = place(intervals)
    assert total <= 1.35 * largest_live_set(intervals)


@given(interval_lists)
def test_colors(intervals):
    numbers, count = color(intervals)
    assert set(numbers) <= set(range(count))
    for i, (a, x) in enumerate(zip(intervals, numbers)):
        assert all(x != y or not meet(a, b) for b, y in zip(intervals[:i], numbers))
    most = largest_live_set([Interval(i.first, i.last, 1) for i in intervals])
    assert count == most


def test_a_row_that_is_read_out_of_order_is_not_overwritten_before():
    """A GPU computes the softmax anew at the permuted places, from the scores: its own result may not lie over them."""

    def function(x, w):
        y = torch.sin(x.reshape(-1, 8) @ w).view(2, 3, 8)
        y = y.flip(1).cumsum(0) * 0.3
        y = y.reshape(2, 3, 2, 4).transpose(2, 3).reshape(2, 3, 8) + 1
        y = torch.softmax((y - y.mean((0, 1))) * 2, -1)
        return y.reshape(2, 3, 2, 4).transpose(2, 3).reshape(2, 3, 8) + 1

    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 8, requires_grad=True), torch.randn(8, 8)
    options = {"target": "interpret", "on_error": "raise"}
    torch.testing.assert_close(torch.compile(function, backend="bascule", options=options)(x, w), function(x, w))
