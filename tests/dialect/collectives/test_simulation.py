"""The simulator of one rank, on runs that can be told by hand."""

from dataclasses import replace

import pytest
from bascule.dialect.collectives.calls import Collectives, Start
from bascule.dialect.collectives.simulation import Filling, Slowed, Times, predict


def started(*numbers):
    """Collectives that begin and are waited for at these numbers."""
    starts = {begin: Start(begin, "", (), "bf16", 1, 1, True, 2, (end,)) for begin, end in numbers}
    return Collectives(starts, {end: begin for begin, end in numbers})


def test_a_collective_alone_is_exposed():
    told = predict(range(2), started((0, 1)), Times([0, 0], {0: 7.0}, 1.5, gap=1.0))
    assert (told.communication, told.exposed, told.step) == (7, 7, 7)


def test_beside_a_product_it_begins_with_the_last_blocks():
    """It begins 8 after the product does, and takes 1.5 times as long for the 2 that are left."""
    times = Times([0, 11.0, 0], {0: 4.0}, 1.5, {1: Filling(8.0, 30, 2.0)}, gap=1.0, blocks=20, multiprocessors=100)
    told = predict(range(3), started((0, 2)), times)
    assert told.exposed == pytest.approx(4 - 2 / 1.5)
    assert told.communication == pytest.approx(2 + 4 - 2 / 1.5)
    assert told.step == pytest.approx(11 + 4 - 2 / 1.5)


def test_where_too_few_are_left_it_ends_no_sooner_than_alone_after_the_product():
    times = Times([0, 11.0, 0], {0: 4.0}, 1.5, {1: Filling(8.0, 10, 2.0)}, gap=1.0, blocks=20, multiprocessors=100)
    told = predict(range(3), started((0, 2)), times)
    assert (told.exposed, told.communication, told.step) == pytest.approx((4, 6, 15))


def test_it_begins_before_a_product_whose_counter_is_set_first():
    """In the 2 of the counter, so that of the product's 8 its 4 take 4 / 0.8, beside which it takes 1.5 times as long: 3 are left, of 5."""
    filling = {1: Filling(6.0, 30, 2.0, counter=2.0)}
    times = Times([0, 7.0, 0], {0: 7.0}, 1.5, filling, gap=1.0, blocks=20, multiprocessors=100)
    told = predict(range(3), started((0, 2)), times)
    assert (told.between, told.compute) == pytest.approx((2, 1 + 2 + 4 / 0.8))
    assert told.waited == {0: pytest.approx(7 - 2 - 5 / 1.5)}
    late = predict(range(3), started((0, 2)), replace(times, host={0: 3.0}))
    assert late.between == 0  # it is begun when the product has all


@pytest.mark.parametrize("left", [0, 20])
def test_it_begins_after_a_product_that_leaves_nothing(left):
    times = Times([0, 6.0, 3.0, 0], {0: 9.0}, filling={1: Filling(5.0, left)}, gap=1.0, blocks=20, multiprocessors=100)
    told = predict(range(4), started((0, 3)), times)
    assert (told.between, told.exposed, told.communication) == pytest.approx((1, 7, 9))


def test_beside_a_collective_that_runs_a_product_has_what_is_left():
    """A kernel of 3, beside which the collective begins; a product of 4 that takes 5, all of them beside it."""
    times = Times([0, 3.0, 4.0, 0], {0: 9.0}, filling={2: Filling(3.0, 30, 1.0)}, blocks=20, multiprocessors=100)
    told = predict(range(4), started((0, 3)), times)
    assert (told.compute, told.exposed, told.step) == pytest.approx((8, 1, 9))


def test_a_product_has_all_once_the_collective_is_done():
    """Of 4 it does 2 in 2.5 beside it."""
    times = Times([0, 3.0, 4.0, 0], {0: 5.5}, filling={2: Filling(3.0, 30, 1.0)}, blocks=20, multiprocessors=100)
    told = predict(range(4), started((0, 3)), times)
    assert (told.compute, told.exposed, told.step) == pytest.approx((3 + 2.5 + 2, 0, 7.5))


@pytest.mark.parametrize("gap", [0.0, 0.25])
def test_what_runs_while_kernels_are_launched_is_exposed(gap):
    found = started((0, 5))
    told = predict(range(6), found, Times([0, 1.0, 1.0, 1.0, 1.0, 0], {0: 10.0}, gap=gap))
    assert told.between == pytest.approx(3 * gap)  # it begins with the first kernel
    assert told.exposed == pytest.approx(told.between + 10 - 4 + gap)
    assert told.communication == pytest.approx(10)
    assert told.step == pytest.approx(4 + 10 - 4 + gap)
    assert told.compute == pytest.approx(4)


def test_what_runs_while_events_are_recorded_and_waited_for_is_exposed():
    """The second is begun beside the first, which is waited for after: two events before the last kernel."""
    found = started((0, 3), (2, 5))
    told = predict(range(6), found, Times([0, 2.0, 0, 0, 3.0, 0], {0: 1.0, 2: 4.0}, gap=0.5, event=0.25))
    assert (told.between, told.exposed, told.step) == pytest.approx((0, 1.5, 0.25 + 2 + 0.5 + 3 + 1.5))
    told = predict(range(6), found, Times([0, 2.0, 0, 0, 3.0, 0], {0: 1.5, 2: 4.0}, gap=0.5, event=0.25))
    assert told.between == pytest.approx(0)
    told = predict((0, 2, 1, 3, 4, 5), found, Times([0, 2.0, 0, 0, 3.0, 0], {0: 1.0, 2: 4.0}, gap=0.5, event=0.25))
    assert told.between == pytest.approx(0.5 + 0.25)


def test_a_collective_that_nobody_waits_for_is_communication():
    told = predict(range(2), started((0, 9)), Times([0, 1.0], {0: 3.0}))
    assert (told.communication, told.exposed, told.step) == (3, 0, 1)


def test_beside_products_is_the_mean():
    """Those that leave it enough do not delay its last block."""
    filling = {1: Filling(4.0, 10, 2.0), 2: Filling(4.0, 30, 4.0)}
    times = Times([0, 6.0, 8.0], {0: 10.0}, 1.1, filling, blocks=20, multiprocessors=100)
    assert times.overlapped() == {0: pytest.approx(11 + (2 + 0) / 2)}


def test_a_copy_before_a_collective_is_no_communication():
    """Of 3 beside 2 of a kernel: 1 is left, in which nothing is exposed; then 4 are."""
    times = Times([0, 2.0, 0], {0: 4.0}, copies={0: 3.0})
    told = predict(range(3), started((0, 2)), times)
    assert (told.compute, told.exposed, told.communication, told.step) == pytest.approx((3, 4, 4, 7))


def test_copies_go_on_beside_the_collective_before():
    """The second's copy of 3 is done beside the first, of 5."""
    times = Times([0, 0, 1.0, 0], {0: 5.0, 1: 2.0}, copies={1: 3.0})
    found = started((0, 8), (1, 3))
    told = predict(range(4), found, times)
    assert (told.compute, told.exposed, told.step) == pytest.approx((1, 6, 7))


def test_what_runs_beside_a_copy_within_the_memory_is_told_apart():
    times = Times([0, 2.0, 3.0, 0], {0: 9.0}, moves={2})
    told = predict(range(4), started((0, 3)), times)
    assert (told.compute, told.beside_moves, told.exposed) == pytest.approx((5, 3, 4))


def test_kernels_and_a_collective_take_longer_beside_each_other():
    """Of the first's 2 all in 3, of the second's 3 as much as 1.5 in what the collective has left of 3 * 2."""
    times = Times([0, 2.0, 3.0, 0], {0: 3.0}, memory=Slowed(collective=2.0, op=1.5))
    told = predict(range(4), started((0, 3)), times)
    assert (told.compute, told.communication, told.exposed) == pytest.approx((3 + 3 + (3 - 3 / 1.5), 6, 0))


def test_before_a_copy_within_the_memory_there_is_a_gap_of_its_own():
    times = Times([0, 2.0, 3.0, 0], {0: 9.0}, moves={2}, gap=0.5, copy_gap=1.0)
    told = predict(range(4), started((0, 3)), times)
    assert (told.compute, told.between, told.beside_moves, told.exposed) == pytest.approx((5, 1, 2, 1 + 9 - 4.5))


def test_what_runs_before_the_host_launches_the_next_op_is_exposed():
    """The op of 2 is launched at 5; the collective of 4 is at 0, and nobody waits for the rest of what it takes beside."""
    told = predict(range(3), started((0, 2)), Times([0, 2.0, 0], {0: 4.0}, host={1: 5.0}))
    assert (told.late, told.exposed, told.communication, told.step) == pytest.approx((4, 4, 4, 7))


def test_a_collective_begins_when_the_host_begins_it():
    """At 1.5, beside the op of 2, for which it waits; 3.5 are left."""
    told = predict(range(3), started((0, 2)), Times([0, 2.0, 0], {0: 4.0}, host={0: 1.5}))
    assert (told.late, told.exposed, told.communication, told.step) == pytest.approx((0, 3.5, 4, 5.5))


def test_nothing_is_exposed_before_the_host_begins_a_collective():
    told = predict(range(3), started((0, 2)), Times([0, 2.0, 0], {0: 4.0}, host={0: 3.0}))
    assert (told.exposed, told.communication, told.step) == pytest.approx((4, 4, 7))


def test_a_copy_before_a_collective_waits_for_the_host_too():
    """Both are launched at 1: the copy of 1 is done with the op, the collective of 3 is exposed."""
    times = Times([0, 2.0, 0], {0: 3.0}, copies={0: 1.0}, host={0: 1.0})
    told = predict(range(3), started((0, 2)), times)
    assert (told.compute, told.exposed, told.step) == pytest.approx((2, 3, 5))


def test_collectives_end_one_after_the_other_while_the_host_is_late():
    """Of 2 and 3, begun at 0 and 1, before an op that is launched at 9: the second takes from 2 to 5."""
    found = started((0, 3), (1, 4))
    told = predict(range(5), found, Times([0, 0, 1.0, 0, 0], {0: 2.0, 1: 3.0}, host={1: 1.0, 2: 9.0}))
    assert (told.late, told.communication, told.step) == pytest.approx((5, 5, 10))


@pytest.mark.parametrize("filling", [{}, {1: Filling(5.0, 30, 1.0), 3: Filling(2.0, 0, 1.0)}])
def test_a_host_that_is_ahead_changes_nothing(filling):
    found = started((0, 4), (2, 5))
    alone = Times([0, 6.0, 0, 3.0, 0, 0], {0: 4.0, 2: 5.0}, 1.5, filling, 0.5, 0.5, 0.25, 20, 100, {2: 1.0})
    ahead = replace(alone, host=dict.fromkeys(range(6), 1e-9))
    told, other = predict(range(6), found, alone), predict(range(6), found, ahead)
    assert other.late == 0
    assert (other.step, other.exposed, other.communication) == pytest.approx(
        (told.step, told.exposed, told.communication)
    )
