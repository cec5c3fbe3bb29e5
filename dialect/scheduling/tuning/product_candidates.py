"""Schedules of a product on tensor cores that are worth measuring: those that a model of the machine does not rule out, the likeliest first.

The model is a bound by each of what a program waits for: tensor cores, what L2 gives a multiprocessor, whole waves of programs. It ranks, and
tells no times.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import ceil

from ...machines.measures import value
from ..gpu.contractions import HALF_SIDE, HIGHEST, LEAST_STAGES, STAGES, WIDEST
from ..gpu.machine import WARP, CudaMachine, power_of_two, waste
from ..gpu.tuned_products import ProductSchedule

MOST = 12  # schedules of a product that are measured
WORTH = 1.6  # times the least that the model predicts, up to which a tile is measured
RAGGED = 1.5  # times the least points of whole tiles: more is computed for nothing
SIDES = (32, 64, 128, 256)  # rows, and columns, of a tile
MOST_TILE = 128 * 256  # elements of a tile: sums in f32 take half of the registers of eight warps
MOST_STAGES = 5
LINE = 128  # bytes of a piece's row
# A multiprocessor in a cycle: products of 16 bits that tensor cores add up, by the least compute capability; those of f32, which tensor cores
# do not take; bytes that it gets from L2.
RATES, IEEE_RATE, L2_RATE = {80: 1024, 90: 2048}, 128, 64
CLOCK = 1.7e9  # cycles in a second
BEGIN = 1000  # cycles of a program beside its steps and the stores of its tile: the first loads
HALF = 64  # rows and columns below which tensor cores wait for shared memory, which has to give both sides anew


@dataclass(frozen=True)
class ProductShape:
    """`batch` products of rows x summed by summed x columns, of elements of `width` bytes; `tf32`: those of f32 are rounded to TF32."""

    batch: int
    rows: int
    summed: int
    columns: int
    width: int
    tf32: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether elements are multiplied as they are, without tensor cores."""
        return self.width == 4 and not self.tf32


def product_candidates(shape: ProductShape, own: ProductSchedule, machine: CudaMachine) -> list[ProductSchedule]:
    """At most `MOST` schedules, `own` first: the best of each tile, then the best ones with one number changed."""
    tiles = {tile: fitted for tile in _tiles(shape) if (fitted := _fitted(shape, own, tile, machine)) is not None}
    least = min((_waste(shape, tile) for tile in tiles), default=1.0)
    costs = {tile: predicted(shape, tiles[tile], machine) for tile in tiles if _waste(shape, tile) <= RAGGED * least}
    best = min(costs.values(), default=0.0)
    ranked = [tiles[tile] for tile in sorted(costs, key=costs.__getitem__) if costs[tile] <= WORTH * best]
    near = [near_schedules(shape, each, machine) for each in dict.fromkeys([*ranked[:2], own])]
    varied = [each for turn in zip_longest(*near) for each in turn if each is not None]  # one of each in turn
    tried = [own, *ranked[: MOST // 2], *varied, *ranked[MOST // 2 :]]
    return list(dict.fromkeys(tried))[:MOST]


def hopeless(shape: ProductShape, saved: int, machine: CudaMachine) -> str | None:
    """Why no kernel is measured beside ATen's call; None if some are. `saved`: bytes that what is computed from the result need not move."""
    if not shape.is_exact:
        return None
    work = shape.batch * shape.rows * shape.summed * shape.columns
    library = work / (machine.sm_count * IEEE_RATE * CLOCK)
    moving = saved / value("h200", "memory_rate")
    if moving > library:  # a kernel takes about twice as long as the library
        return None
    slower, saved_us = f"{1e6 * library:.1f} us longer", f"{1e6 * moving:.1f} us"
    return f"in f32, without tensor cores, a kernel takes about {slower} than a call, and saves {saved_us} of memory traffic"


def near_schedules(shape: ProductShape, own: ProductSchedule, machine: CudaMachine) -> Iterator[ProductSchedule]:
    """Those of the same tile with one number changed, likely ones first. Of programs that take tile after tile a multiprocessor has one, or two
    with half of the tile each."""
    high, wide = own.tile
    if own.programs and own.warps == 4 and high * wide == MOST_TILE // 2:
        yield replace(own, tile=(HIGHEST, WIDEST), warps=8, stages=STAGES, programs=own.programs // 2)
    if own.programs and own.warps == 8 and high * wide == MOST_TILE:
        yield replace(
            own, tile=(HALF_SIDE, HALF_SIDE), warps=4, stages=LEAST_STAGES, programs=2 * own.programs, consumers=0
        )
    for warps in (own.warps * 2, own.warps // 2):
        if 4 <= warps <= 8 and high * wide <= MOST_TILE // 8 * warps:
            yield replace(own, warps=warps, programs=0, consumers=0)
    if own.programs:
        yield replace(own, programs=0, consumers=0)
    if own.consumers:
        yield replace(own, consumers=0)
    for stages in (own.stages - 1, own.stages + 1):  # tile after tile there are as many as shared memory has room for
        most = own.stages if own.programs else machine.shared // _piece(shape, own)
        if 2 <= stages <= min(MOST_STAGES, most):
            yield replace(own, stages=stages)
    if shape.width == 2 and own.step == LINE // shape.width and own.step > 32:
        stages = min(MOST_STAGES, 2 * own.stages)
        yield replace(own, step=own.step // 2, stages=stages)
    if shape.rows > 2 * high * own.group or own.group > 8:
        yield replace(own, group=16 if own.group == 8 else 8)
    if own.descriptors:
        yield replace(own, descriptors=(), programs=0, consumers=0)


def predicted(shape: ProductShape, schedule: ProductSchedule, machine: CudaMachine) -> float:
    """Cycles that a product takes, as far as the model goes."""
    high, wide = schedule.tile
    programs = shape.batch * ceil(shape.rows / high) * ceil(shape.columns / wide)
    steps = ceil(shape.summed / schedule.step)
    narrow = RATES[90 if machine.capability >= 90 else 80] * 2 // shape.width  # half as many of TF32
    rate = IEEE_RATE if shape.is_exact else narrow
    slowed = (1 + HALF / (2 * high)) * (1 + HALF / (4 * wide))
    computing = high * wide * schedule.step / rate * slowed
    loading = (high + wide) * schedule.step * shape.width / L2_RATE
    resident = _resident(shape, schedule, machine)
    # Programs of one multiprocessor share its tensor cores: they hide what each spends beside its steps.
    beside = BEGIN + high * wide * shape.width / L2_RATE
    waves, rest = divmod(programs, machine.sm_count * resident)
    last = ceil(rest / machine.sm_count)
    return (waves * resident + last) * steps * max(computing, loading) + (waves + bool(rest)) * beside


def _tiles(shape: ProductShape) -> Iterator[tuple[int, int]]:
    """Sizes of tiles that are no more than twice the product's."""
    most = 64 * 64 if shape.is_exact else MOST_TILE
    for high in SIDES:
        for wide in SIDES:
            small = high <= max(16, power_of_two(shape.rows)) and wide <= max(16, power_of_two(shape.columns))
            if high * wide <= most and small:
                yield high, wide


def _fitted(
    shape: ProductShape, own: ProductSchedule, tile: tuple[int, int], machine: CudaMachine
) -> ProductSchedule | None:
    """`own` with another tile, warps for its sums, and stages for which shared memory has room; None where it has no room for two."""
    high, wide = tile
    made = replace(own, tile=tile, warps=8 if high * wide > 128 * 128 else 4, programs=0, consumers=0)
    room = machine.shared // _piece(shape, made)
    steps = ceil(shape.summed / own.step)
    # Two programs of a multiprocessor hide the ends of each other, where registers and three stages of both have room.
    stages = room // 2 if high * wide <= 128 * 128 and room >= 6 else room
    stages = min(MOST_STAGES if high * wide <= 64 * 128 else 4, stages, max(1, steps))
    return None if stages < min(2, steps) else replace(made, stages=stages)


def _piece(shape: ProductShape, schedule: ProductSchedule) -> int:
    """Bytes of a step in shared memory."""
    return sum(schedule.tile) * schedule.step * shape.width


def _resident(shape: ProductShape, schedule: ProductSchedule, machine: CudaMachine) -> int:
    """Programs of a multiprocessor at one time: by shared memory, and by registers, of which the sums take about half."""
    high, wide = schedule.tile
    registers = max(64 * WARP * schedule.warps, high * wide * 3 // 2)
    return max(1, min(machine.shared // (schedule.stages * _piece(shape, schedule)), machine.registers // registers, 4))


def _waste(shape: ProductShape, tile: tuple[int, int]) -> float:
    high, wide = tile
    return waste(shape.rows, high) * waste(shape.columns, wide)
