"""Where buffers are placed: properties that hold for every graph."""

import torch
from bascule.dialect.analysis.memory.arena_placement import (
    ALIGNMENT,
    KEPT,
    Interval,
    aligned,
    apart,
    color,
    largest_live_set,
    place,
)
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


MIB = 1 << 20


def peak(buffers, others, end, moved):
    """With all but the `moved` in an arena that ends with the last of them."""
    kept = [b for n, b in enumerate(buffers) if n not in moved]
    alone = [b for n, b in enumerate(buffers) if n in moved]
    if kept:
        alone.append(Interval(min(b.first for b in kept), max(b.last for b in kept), place(kept)[1]))
    return max(sum(b.size for b in (*alone, *others) if b.first <= time <= b.last) for time in range(end + 1))


def test_an_arena_begins_after_a_peak_that_needs_little_of_it():
    """Three small ones are needed beside the loss's gradient, and many others later: the three are apart."""
    few = [Interval(0, 2, 4), Interval(0, 2, 8192), Interval(1, 2, 32768)]
    many = [Interval(4 + n, 6 + n, MIB) for n in range(20)]
    others = [Interval(1, 3, 1000 * MIB)]
    found = apart([*few, *many], others, 30, 1024, worth=1 << 16, freed=KEPT)
    assert found == {0, 1, 2}
    assert peak([*few, *many], others, 30, found) == 1000 * MIB + sum(b.size for b in few)
    assert apart([*few, *many], others, 30, 128) == set()


def test_an_arena_ends_before_a_peak():
    many = [Interval(n, 2 + n, MIB) for n in range(20)]
    last, others = Interval(21, 25, 64), [Interval(24, 30, 1000 * MIB)]
    assert apart([*many, last], others, 30, 1024, worth=1 << 16, freed=KEPT) == {20}


@given(interval_lists, interval_lists, st.sampled_from([64, 1000]))
def test_an_allocation_is_worth_its_bytes(buffers, others, worth):
    buffers = [Interval(b.first, b.last, 100 * b.size) for b in buffers]
    found = apart(buffers, others, 50, 1, worth=worth, freed=0)
    assert peak(buffers, others, 50, found) + worth * len(found) <= peak(buffers, others, 50, set())
