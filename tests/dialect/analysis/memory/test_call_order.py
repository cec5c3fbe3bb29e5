"""The order in which steps run, and the memory that it needs."""

from bascule.dialect.analysis.memory.call_order import Step, by_memory, live_bytes, peak
from hypothesis import given
from hypothesis import strategies as st


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


def test_what_is_kept_is_never_freed():
    steps = [Step(set(), [0], set()), Step({0}, [1], {0}), Step({1}, [2], {1})]
    assert peak(steps, range(3), [7, 13, 17], set()) == 13 + 17
    assert peak(steps, range(3), [7, 13, 17], {0}) == 7 + 13 + 17
    assert peak([Step(set(), [0], set()), Step(set(), [1], set())], range(2), [7, 13], set()) == 13  # nobody uses them
    assert (peak([], [], [], set()), by_memory([], [], set())) == (0, [])


def test_of_equal_steps_the_earlier_comes_first():
    steps = [Step(set(), [number], set()) for number in range(3)]
    assert by_memory(steps, [5, 5, 5], set()) == [0, 1, 2]
    assert by_memory(steps, [5, 5, 4], set()) == [2, 0, 1]
    assert by_memory([Step(), Step({0}, [0]), Step({1}, [1])], [5, 0], set()) == [0, 1, 2]  # no bytes, but an order


def test_what_no_step_makes_is_there_until_its_last_use():
    """Saved tensors: the sum of the second one may come at any time, and lets it go."""
    steps = [Step(set(), [2], {0}), Step({0}, [3], {2}), Step(set(), [4], {1})]
    sizes = [100, 100, 10, 10, 1]
    assert peak(steps, range(3), sizes, {3, 4}) == 210
    assert peak(steps, [2, 0, 1], sizes, {3, 4}) == 201
    assert by_memory(steps, sizes, {3, 4})[0] == 2


@given(graphs(), st.data())
def test_what_a_step_takes_counts_while_it_runs(graph, data):
    steps, sizes = graph
    bare = live_bytes(steps, range(len(steps)), sizes, set())
    for step in steps:
        step.takes = data.draw(st.integers(0, 100))
    found = live_bytes(steps, range(len(steps)), sizes, set())
    assert found == [(before, during + step.takes, after) for step, (before, during, after) in zip(steps, bare)]
    assert peak(steps, range(len(steps)), sizes, set()) == max(during for _, during, _ in found)
