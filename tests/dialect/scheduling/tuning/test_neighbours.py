"""Schedules near a kernel's own: each differs in one decision, within what a program can hold."""

from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.machine import H200
from bascule.dialect.scheduling.gpu.planner import cuda_schedule
from bascule.dialect.scheduling.gpu.schedule_form import KernelSchedule, from_attribute
from bascule.dialect.scheduling.tuning.neighbours import neighbours

from tests.dialect.scheduling.gpu.test_contractions import linear, two
from tests.dialect.small_kernels import copied, indexing_of, mlir, row_sums, scaled_rows, schedule

__all__ = ["mlir"]


def near(op: ir.Operation) -> dict[str, KernelSchedule]:
    """By what differs, the schedule."""
    schedule(op, cuda_schedule(op, H200, indexing_of(op)))
    found = {}
    for neighbour in neighbours(op):
        op.attributes["schedule"] = neighbour.schedule
        found[neighbour.change] = from_attribute(op)
    return found


def test_a_flat_program():
    found = near(copied(13, 71))  # 923 points: a tile of 256, a warp
    assert list(found) == ["warps 1 -> 2", "tile x 2", "tile / 2"]
    assert [one.warps for one in found.values()] == [2, 1, 1]
    assert [one.domains[0].tile for one in found.values()] == [(256,), (512,), (128,)]


def test_rows_in_steps():
    found = near(row_sums(1000, 100_004))  # eight warps, steps of 4096
    changes = ["warps 8 -> 16", "warps 8 -> 4", "warps 8 -> 16, steps x 2", "tile x 2", "steps x 2", "steps / 2"]
    assert list(found) == [*changes, "stages 1 -> 2"]
    assert [one.domains[0].loops[0].step for one in found.values()] == [4096, 4096, 8192, 4096, 8192, 2048, 4096]
    assert found["stages 1 -> 2"].stages == 2


def test_a_step_is_never_the_whole_of_a_loop():
    found = near(row_sums(1000, 16_388))  # steps of 4096: 8192 walks, the double of that would not
    assert found["steps x 2"].domains[0].loops[0].step == 8192
    assert "steps x 2" not in near(row_sums(5, 129))


def test_a_cluster_is_halved_and_its_rooms_kept():
    found = near(scaled_rows(5, 100_003))
    assert found["cluster 8 -> 4"].cluster == 4
    assert "cluster 8 -> 16" not in found
    assert not any(change.startswith("tile") for change in found)
    own = found["cluster 8 -> 4"]
    fewer = found[f"warps {own.warps} -> {own.warps // 2}"]
    assert fewer.resident == 2 * own.resident


def test_a_contraction_has_other_tiles_groups_and_pointers():
    found = near(linear(4096, 4096, 4096))  # 128 x 256, 8 warps, 4 stages
    changes = ["columns / 2", "rows / 2", "stages 4 -> 5", "stages 4 -> 3", "group 8 -> 16", "descriptors -> pointers"]
    assert list(found) == changes
    tiles = [tuple(one.domains[0].tile) for one in found.values()]
    assert tiles == [(128, 128), (64, 256), *[(128, 256)] * 4]
    assert found["group 8 -> 16"].domains[0].group == 16
    assert not found["descriptors -> pointers"].domains[0].loops[0].descriptors
    small = near(linear(512, 1024, 512))
    assert {"rows x 2", "columns x 2", "warps 4 -> 8"} <= small.keys()


def test_contractions_that_walk_together_change_together():
    found = near(two(4096, 1024, 4096, same=True))
    assert all(one.domains[0].loops[0].descriptors == one.domains[0].loops[1].descriptors for one in found.values())
    assert all(2 * one.domains[0].tile[-2] * one.domains[0].tile[-1] <= 128 * 256 for one in found.values())
