"""How long sums over windows take, by how many programs end together."""

from math import inf

from bascule.dialect.analysis.products.windows import Window
from bascule.dialect.scheduling.gpu.machine import H200
from bascule.dialect.scheduling.gpu.windows import walking_time


def time(chunks: int, places: int, channels: int = 96) -> float:
    """Of the gradient of the weight of a depthwise convolution of 7 x 7, bf16."""
    window = Window(
        outer=3,
        inner=2,
        points=7,
        terms=7,
        loads=20,
        reads=2,
        lane=0,
        lanes=channels,
        far=1,
        beside=8,
        ragged=False,
        whole=False,
    )
    return walking_time(window, 49 * channels, 2, (chunks, places), H200)


def test_programs_that_do_not_fit_beside_the_others_take_a_turn_of_their_own():
    # 64 images of 56 x 56: 1344 programs of two warps where 1320 fit, or 768.
    assert time(448, 448) > 1.8 * time(256, 784)
    assert time(896, 224) > 1.3 * time(256, 784)


def test_few_programs_leave_units_idle():
    assert time(128, 1568) > 1.9 * time(256, 784)


def test_a_walk_of_few_places_reads_nothing_once_for_neighbours():
    assert time(448, 112) == inf
