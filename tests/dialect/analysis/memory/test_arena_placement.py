"""Where buffers are placed, and in which order steps run: properties that hold for every graph."""

import torch
from bascule.dialect.analysis.memory.arena_placement import ALIGNMENT, Interval, aligned, color, largest_live_set, place
from bascule.dialect.analysis.memory.call_order import Step, by_memory, peak
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


@st.composite
def graphs(draw):
    """Steps in an order that may run; each makes a buffer, and uses some of earlier ones."""
    steps, sizes = [], []
    for number in range(draw(st.integers(1, 20))):
        uses = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        steps.append(Step(set(uses), [number], set(uses)))
        sizes.append(draw(st.integers(0, 100)))
    return steps, sizes


@given(graphs())
def test_orders_respect_dependences(graph):
    steps, sizes = graph
    order = by_memory(steps, sizes, set())
    assert sorted(order) == list(range(len(steps)))
    seen: set[int] = set()
    for number in order:
        assert steps[number].after <= seen
        seen.add(number)
    assert peak(steps, order, sizes, set()) >= max(sizes)


def test_large_values_are_used_before_others_are_made():
    made = [Step(set(), [i], set()) for i in range(4)]
    reduced = [Step({i}, [4 + i], {i}) for i in range(4)]
    steps, sizes = made + reduced, [100] * 4 + [1] * 4
    assert peak(steps, range(8), sizes, set()) == 401
    assert peak(steps, by_memory(steps, sizes, set()), sizes, set()) < 110


def test_what_needs_nothing_comes_right_before_its_first_user():
    """Casts of weights, each for one of a chain of products: one is alive at a time, though a cast makes less than a product."""
    casts, products = 6, 6
    steps = [Step(set(), [i], set()) for i in range(casts)]
    for i in range(products):
        before = {casts + i - 1} if i else set()
        steps.append(Step({i} | before, [casts + i], {i} | before))
    sizes = [10] * casts + [100] * products
    order = by_memory(steps, sizes, {len(sizes) - 1})
    assert order == [n for i in range(products) for n in (i, casts + i)]
    assert peak(steps, order, sizes, set()) == 210


def test_what_waits_is_shared_by_its_users():
    steps = [Step(set(), [], set()), Step({0}, [0], set()), Step({1}, [1], {0}), Step({1, 2}, [2], {0, 1})]
    assert by_memory(steps, [8, 4, 2], {2}) == [0, 1, 2, 3]


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
