"""DDP's buckets between the graphs of a backward, on schedules that can be told by hand."""

import pytest
from bascule.dialect.collectives.reducer import Gradient, Reducer
from bascule.dialect.collectives.timeline import Begin, Timeline, Wait, Work

from .schedules import ByHand


def gradients(*sizes, key=""):
    return [Gradient(f"{key}{number}", size, key) for number, size in enumerate(sizes)]


def sizes(buckets):
    return [[each.bytes for each in bucket] for bucket in buckets]


def test_a_bucket_ends_with_the_gradient_that_fills_it():
    assert sizes(Reducer(2, 3, 10).buckets(gradients(1, 2, 4, 4, 4, 20, 5))) == [[1, 2], [4, 4, 4], [20], [5]]


def test_a_bucket_has_one_dtype_and_each_begins_with_the_small_one():
    mixed = [Gradient("a", 2, "f32"), Gradient("b", 3, "bf16"), Gradient("c", 3, "f32"), Gradient("d", 3, "bf16")]
    found = Reducer(2, 3, 10).buckets(mixed)
    assert [[each.parameter for each in bucket] for bucket in found] == [["b"], ["a", "c"], ["d"]]


def played(backward, reducer, **costs):
    timeline = Timeline(ByHand(**costs))
    reducer.play(timeline, backward)
    return timeline, timeline.predicted()


def test_a_bucket_is_reduced_beside_the_next_graph():
    """The first takes 4 beside 10; the second has nothing beside it."""
    one, other = gradients(4, 6)
    timeline, told = played([[Work(1.0)], one, [Work(10.0)], other], Reducer(2, 1, 1))
    assert timeline.collectives == [("all_reduce", 4), ("all_reduce", 6)]
    assert (told.step, told.compute, told.communication, told.exposed) == (17, 11, 10, 6)


def test_one_bucket_for_all_is_exposed():
    one, other = gradients(4, 6)
    _, told = played([[Work(1.0)], one, [Work(10.0)], other], Reducer(2, 100, 100))
    assert (told.step, told.communication, told.exposed) == (21, 10, 10)


def test_a_bucket_that_is_full_waits_for_those_before():
    """`a` fills no bucket alone, `b` of another dtype does, `c` fills the first: at its place in the order that is second."""
    backward = [Gradient("a", 1, "x"), [Work(1.0)], Gradient("b", 5, "y"), [Work(2.0)], Gradient("c", 4, "x")]
    timeline, _ = played(backward, Reducer(2, 5, 5))
    assert timeline.collectives == [("all_reduce", 5), ("all_reduce", 5)]
    assert timeline.order.index(next(iter(timeline.found.starts))) < 4
    first_last = [Gradient("a", 5, "x"), Gradient("b", 1, "y"), [Work(9.0)], Gradient("c", 4, "y")]
    _, told = played(first_last, Reducer(2, 5, 5))
    assert told.exposed == 5


@pytest.mark.parametrize(("views", "compute"), [(False, 11 + 10 + 10), (True, 11 + 10)])
def test_gradients_are_copied_in_and_out(views, compute):
    """Beside the copies out of the first, 4, the second goes on."""
    one, other = gradients(4, 6)
    _, told = played([[Work(1.0)], one, [Work(10.0)], other], Reducer(2, 1, 1, views), copy=1.0)
    assert told.compute == compute
    assert told.exposed == (6 if views else 2)


def test_collectives_of_the_graphs_are_among_them():
    (one,) = gradients(4)
    graph = [Work(1.0), Begin(7, "all_reduce", 3, 2), Work(2.0), Wait(7), Work(5.0)]
    timeline, told = played([graph, one, graph], Reducer(2, 1, 1))
    assert [size for _, size in timeline.collectives] == [3, 4, 3]
    # The bucket runs beside 1 and 2 and delays the second of the graph by 1, which is waited for with 3 of its own.
    assert told.exposed == pytest.approx(1 + (1 + 3))
