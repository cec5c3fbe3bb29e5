"""The simulator of one rank, on runs that can be told by hand."""

import pytest
from bascule.dialect.collectives.calls import Collectives, Start
from bascule.dialect.collectives.simulation import Times, predict


def started(*numbers):
    """Collectives that begin and are waited for at these numbers."""
    starts = {begin: Start(begin, "", (), "bf16", 1, 1, True, 2, (end,)) for begin, end in numbers}
    return Collectives(starts, {end: begin for begin, end in numbers})


def test_a_collective_alone_is_exposed():
    told = predict(range(2), started((0, 1)), Times([0, 0], {0: 7.0}, 1.5, [0, 0], 0.5, 1.0))
    assert (told.communication, told.exposed, told.step) == (7, 7, 7)


def test_beside_a_product_it_takes_longer_from_its_launch_on():
    """It begins when the product does, after a launch of 1, and takes 1.5 * 4 + 0.5 * 10: 10 beside the product, the rest alone."""
    found, ops = started((0, 2)), [0, 11.0, 0]
    told = predict(range(3), found, Times(ops, {0: 4.0}, 1.5, [0, 10.0, 0], 0.5, 1.0))
    assert told.exposed == pytest.approx(1 / 1.5)
    assert told.communication == pytest.approx(10 + 1 / 1.5)
    assert told.step == pytest.approx(11 + 1 / 1.5)


@pytest.mark.parametrize("launch", [0.0, 0.25])
def test_what_runs_while_kernels_are_launched_is_exposed(launch):
    found = started((0, 5))
    told = predict(range(6), found, Times([0, 1.0, 1.0, 1.0, 1.0, 0], {0: 10.0}, launch=launch))
    assert told.between == pytest.approx(3 * launch)  # it begins with the first kernel
    assert told.exposed == pytest.approx(told.between + 10 - 4 + launch)
    assert told.communication == pytest.approx(10)
    assert told.step == pytest.approx(4 + 10 - 4 + launch)
    assert told.compute == pytest.approx(4)


def test_a_collective_that_nobody_waits_for_is_communication():
    told = predict(range(2), started((0, 9)), Times([0, 1.0], {0: 3.0}))
    assert (told.communication, told.exposed, told.step) == (3, 0, 1)


def test_beside_products_is_the_mean():
    times = Times([0, 2.0, 4.0], {0: 10.0}, 1.1, [0, 2.0, 4.0], 0.5)
    assert times.overlapped() == {0: pytest.approx(11 + 0.5 * 3)}
