"""How long sums over windows take, by how many programs end together."""

from math import inf

from bascule.dialect.analysis.products.windows import Window
from bascule.dialect.scheduling.gpu.machine import H200
from bascule.dialect.scheduling.gpu.windows import walking_time


def time(chunks: int, places: tuple[int, ...], side: int = 7, channels: int = 96, width: int = 2) -> float:
    """Of the gradient of the weight of a depthwise convolution, bf16 unless 4 bytes wide."""
    window = Window(
        outer=3,
        inner=2,
        points=side,
        terms=7,
        loads=side + 13,
        reads=2,
        lane=0,
        lanes=channels,
        far=1,
        beside={3: 4, 7: 8}[side],
        ragged=False,
        whole=False,
    )
    return walking_time(window, side * side * channels, width, (chunks, places), H200)


def test_short_sums_have_threads_of_their_own():
    # 64 images of 56 x 56: two rows of one, or a quarter of it.
    for width in (2, 4):
        assert time(1792, (2, 56), width=width) < 0.95 * time(256, (14, 56), width=width)


def test_few_threads_leave_units_idle():
    assert time(16, (7, 14)) > 1.5 * time(64, (2, 14))


def test_parts_of_short_sums_that_keep_units_busy_take_as_long():
    assert time(448, (4, 28)) < 1.05 * time(896, (2, 28))


def test_programs_that_copy_ahead_and_have_no_room_take_a_turn_of_their_own():
    # 128 images of 56 x 56 in 64 channels: 7 of 16 KiB each have room on a multiprocessor, 14 have not.
    assert time(1792, (4, 56), 3, 64) > 1.5 * time(896, (8, 56), 3, 64)


def test_few_programs_that_copy_ahead_leave_memory_idle():
    assert time(256, (28, 56), 3, 64) > 1.5 * time(896, (8, 56), 3, 64)


def test_single_rows_are_not_copied_ahead_for_results_beside_each_other():
    assert time(7168, (56,), 3, 64) == inf == time(7168, (1, 1, 56), 3, 64)
