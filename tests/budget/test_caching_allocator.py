"""The model of PyTorch's caching allocator: segments, splits, what meets again. tests/gpu has it beside PyTorch's."""

from itertools import pairwise
from random import Random

import pytest

from bascule.budget.caching_allocator import MEDIUM_SEGMENT, SMALL_SEGMENT, UNIT, Pool

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "segment"),
    [(1, SMALL_SEGMENT), (MIB, SMALL_SEGMENT), (MIB + 1, MEDIUM_SEGMENT), (10 * MIB, 10 * MIB), (11 * MIB, 12 * MIB)],
)
def test_segments(size, segment):
    pool = Pool()
    pool.allocate(size)
    assert pool.held == segment


def test_small_blocks_share_a_segment():
    pool = Pool()
    blocks = [pool.allocate(100) for _ in range(SMALL_SEGMENT // UNIT)]
    assert pool.held == SMALL_SEGMENT and not pool.available
    assert len({block.address for block in blocks}) == len(blocks)


def test_neighbours_meet_again():
    pool = Pool()
    pool.free(pool.allocate(30 * MIB))
    blocks = [pool.allocate(10 * MIB) for _ in range(3)]
    for number in (0, 2, 1):
        pool.free(blocks[number])
    pool.allocate(30 * MIB)
    assert pool.held == 30 * MIB


def test_a_hole_is_too_small():
    pool = Pool()
    first, _, third = [pool.allocate(12 * MIB) for _ in range(3)]
    pool.free(first)
    pool.free(third)
    pool.allocate(24 * MIB)
    assert pool.held == 60 * MIB


def test_little_is_left_in_a_large_block():
    pool = Pool()
    pool.free(pool.allocate(30 * MIB))
    pool.allocate(29 * MIB)
    assert not pool.available


@pytest.mark.parametrize("seed", range(20))
def test_random_blocks(seed):
    random, pool, live = Random(seed), Pool(), []
    for _ in range(500):
        if live and random.random() < 0.5:
            pool.free(live.pop(random.randrange(len(live))))
        else:
            live.append(pool.allocate(int(2 ** random.uniform(3, 26))))
        ends = sorted((block.address, block.address + block.size) for block in live)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
        assert sum(block.size for block in live) + pool.available == pool.held
    for block in live:
        pool.free(block)
    assert pool.available == pool.held
