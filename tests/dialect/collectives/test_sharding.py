"""FSDP2's gathers and scatters between the graphs of blocks, on schedules that can be told by hand."""

import pytest
from bascule.dialect.collectives.sharding import At, Hook, Sharding, Unit
from bascule.dialect.collectives.timeline import Timeline, Work

from .schedules import ByHand


def stepped(units, forward, backward):
    """The hooks and graphs of a step: units in order, and back."""
    for unit in units:
        yield from (At(Hook.PRE_FORWARD, unit), [Work(forward)], At(Hook.POST_FORWARD, unit))
    for unit in reversed(units):
        yield from (At(Hook.PRE_BACKWARD, unit), [Work(backward)], At(Hook.POST_BACKWARD, unit))


def played(sizes, forward, backward, reshards=True, copy=0.0):
    units = {str(n): Unit(str(n), size, size, reshards) for n, size in enumerate(sizes)}
    timeline = Timeline(ByHand(copy))
    Sharding(timeline, units, 2).play(stepped(list(units), forward, backward))
    return timeline, timeline.predicted()


def test_collectives_in_their_order():
    """The last block is gathered again too; the gather of the block before goes ahead of each scatter."""
    timeline, _ = played([1, 2, 4], 1.0, 1.0)
    g, s = "all_gather_into_tensor", "reduce_scatter_tensor"
    backward = [(g, 4), (g, 2), (s, 4), (g, 1), (s, 2), (s, 1)]
    assert timeline.collectives == [(g, 1), (g, 2), (g, 4), *backward]


def test_parameters_that_stay_are_not_gathered_again():
    timeline, _ = played([1, 2, 4], 1.0, 1.0, reshards=False)
    assert [kind for kind, _ in timeline.collectives] == ["all_gather_into_tensor"] * 3 + ["reduce_scatter_tensor"] * 3


def test_only_the_ends_are_exposed_where_blocks_take_longer():
    """The first gather and the last scatter."""
    _, told = played([2, 2, 2], 10.0, 20.0)
    assert (told.step, told.communication, told.exposed) == (94, 18, 4)


def test_two_gathers_at_most_are_ahead():
    """Gathers of 4 beside forwards of 1, of which each delays the next by 3. The gather for the backward begins with the last forward."""
    _, told = played([4, 4, 4], 1.0, 100.0)
    forward = 4 + 3 + 3  # exposed
    assert told.exposed == pytest.approx(forward + 3 + 4)


def test_the_gather_after_next_waits_for_a_copy():
    """The third, of 9, begins when the second is done, at 2, beside two forwards of 5 that end at 11; for the backward at 11, beside 5."""
    _, told = played([1, 1, 9], 5.0, 100.0)
    assert told.exposed == pytest.approx(1 + 4 + 1)


def test_a_scatter_whose_input_is_kept_delays_the_next_block():
    """Each block of the backward waits for the scatter before: 10 beside 1."""
    units = {str(n): Unit(str(n), 0, 10, reshards=False) for n in range(2)}
    step = [*stepped(units, 0.0, 1.0), [Work(30.0)]]
    timeline = Timeline(ByHand())
    Sharding(timeline, units, 2).play(step)
    assert timeline.predicted().exposed == 9
    kept = Timeline(ByHand())
    Sharding(kept, units, 2, kept=2).play(step)
    assert kept.predicted().exposed == 0


def test_a_unit_whose_inputs_need_no_gradient_scatters_at_the_end():
    units = {"a": Unit("a", 2, 2)}
    timeline = Timeline(ByHand())
    Sharding(timeline, units, 2).play([At(Hook.PRE_BACKWARD, "a"), [Work(5.0)], [Work(1.0)]])
    assert timeline.collectives[-1] == ("reduce_scatter_tensor", 2)
    assert timeline.predicted().exposed == 4


def test_copies_are_no_exposed_communication():
    """The part of 2 is copied before the first gather, 4 after it; nothing is beside them."""
    _, told = played([4], 10.0, 10.0, reshards=False, copy=1.0)
    assert told.compute == pytest.approx(20 + 2 + 4 + 4)
    assert told.exposed == pytest.approx(8)
