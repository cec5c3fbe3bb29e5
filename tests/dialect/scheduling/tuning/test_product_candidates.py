"""Schedules of a product that are worth measuring: few, distinct, within what a program may have; the model rules out what cannot be fast."""

import pytest
from bascule.dialect.scheduling.gpu.machine import H200, CudaMachine
from bascule.dialect.scheduling.gpu.tuned_products import ProductSchedule
from bascule.dialect.scheduling.tuning.product_candidates import (
    MOST,
    ProductShape,
    hopeless,
    predicted,
    product_candidates,
)

A100 = CudaMachine(108, 80, 1 << 16, 40 << 20)
L40 = CudaMachine(142, 89, 1 << 16, 96 << 20)
SHAPES = [
    ProductShape(1, *sizes, 2)
    for sizes in (
        (8192, 4096, 16384),
        (2048, 1024, 1024),
        (777, 768, 1001),
        (9, 64, 4096),
        (4096, 4096, 12),
        (64, 48, 80),
    )
]
OWN = ProductSchedule((64, 128), 64, 4, 3, 8, (0, 1))


@pytest.mark.parametrize("machine", [H200, A100, L40], ids=["H200", "A100", "L40"])
@pytest.mark.parametrize("shape", [*SHAPES, ProductShape(16, 512, 64, 512, 2)], ids=str)
def test_they_are_few_and_fit(shape, machine):
    found = product_candidates(shape, OWN, machine)
    assert found[0] == OWN and 3 <= len(found) <= MOST == 12 and len(set(found)) == len(found)
    for one in found[1:]:
        high, wide = one.tile
        assert sum(one.tile) * one.step * shape.width * one.stages <= machine.shared
        assert one.warps in (4, 8) and high * wide <= 128 * 32 * one.warps and one.group in (8, 16)
        assert set(one.descriptors) in (set(), set(OWN.descriptors))


def tiles(*sizes, batch=1):
    """Those that the model chooses."""
    found = product_candidates(ProductShape(batch, *sizes, 2), OWN, H200)
    return {one.tile for one in found} - {OWN.tile}


def test_large_products_have_large_tiles():
    assert {(128, 256), (256, 128), (128, 128)} <= tiles(8192, 4096, 16384)
    assert not any(high * wide < 64 * 128 for high, wide in tiles(8192, 4096, 16384))


def test_small_products_have_a_tile_for_many_multiprocessors():
    assert (64, 64) in tiles(512, 768, 768) and (128, 256) not in tiles(512, 768, 768)
    assert (128, 256) in tiles(512, 768, 768, batch=64)


def test_tiles_that_are_mostly_beyond_the_product_are_left_out():
    """Of 130 rows tiles of 128 and 256 compute 126 for nothing; those of 32 do 30."""
    assert all(high in (32, 64) for high, _ in tiles(130, 4096, 8192))
    assert all(wide <= 32 for _, wide in tiles(8192, 4096, 24))


def test_both_of_two_programs_have_room_where_tiles_are_small():
    found = product_candidates(ProductShape(1, 8192, 768, 3072, 2), OWN, H200)
    (half,) = (one for one in found if one.tile == (128, 128))
    assert 2 * half.stages * 256 * 64 * 2 <= H200.shared


def test_one_program_that_takes_tile_after_tile_is_measured_beside_two_and_two_beside_one():
    one = ProductSchedule((128, 256), 64, 8, 4, 8, (0, 1), programs=132)
    two = ProductSchedule((128, 128), 64, 4, 3, 8, (0, 1), programs=264)
    shape = ProductShape(1, 8192, 2048, 8192, 2)
    assert two in product_candidates(shape, one, H200) and one in product_candidates(shape, two, H200)


def test_short_sums_are_not_read_ahead():
    assert {one.stages for one in product_candidates(ProductShape(1, 4096, 64, 4096, 2), OWN, H200)[1:6]} == {1}


def test_the_model_knows_waves():
    """One tile more than multiprocessors takes twice as long."""
    schedule = ProductSchedule((128, 256), 64, 8, 4, 8, (0, 1))
    whole, more = (predicted(ProductShape(1, rows, 4096, 256 * 132, 2), schedule, H200) for rows in (128, 129))
    assert 1.9 < more / whole < 2.1


def test_tf32_has_the_tiles_of_tensor_cores():
    """At half of the rate, of twice as many bytes."""
    exact, wide, narrow = (ProductShape(1, 4096, 4096, 4096, *of) for of in ((4,), (4, True), (2,)))
    assert hopeless(exact, 0, H200) is not None and hopeless(wide, 0, H200) is None
    own = ProductSchedule((128, 256), 32, 8, 4, 8, (0, 1))
    found = product_candidates(wide, own, H200)
    assert found[0] == own and max(high * wide for one in found for high, wide in [one.tile]) == 128 * 256
    assert all(sum(one.tile) * one.step * 4 * one.stages <= H200.shared for one in found)
    assert 1.9 < predicted(wide, own, H200) / predicted(narrow, ProductSchedule((128, 256), 64, 8, 4, 8), H200) < 2.1


def test_f32_needs_memory_traffic_that_pays():
    shape = ProductShape(1, 4096, 1024, 4096, 4)
    assert "us longer than a call" in (hopeless(shape, 2 * 4096 * 4096 * 4, H200) or "")
    assert hopeless(ProductShape(1, 4096, 16, 4096, 4), 2 * 4096 * 4096 * 4, H200) is None
    assert hopeless(ProductShape(1, 4096, 16, 4096, 4), 0, H200) is not None
    assert hopeless(ProductShape(1, 4096, 1024, 4096, 2), 0, H200) is None
    found = product_candidates(ProductShape(1, 4096, 16, 4096, 4), ProductSchedule((64, 64), 16, 4, 1, 8), H200)
    assert all(high * wide <= 64 * 64 and one.step == 16 for one in found for high, wide in [one.tile])
