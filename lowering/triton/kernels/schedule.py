"""Whether the schedule of a kernel fits it, and Triton: everything about how it runs on a GPU has been decided by
`schedule-kernels{target=cuda}`, and what would be wrong code is refused."""

from collections.abc import Sequence
from math import prod

from bascule.dialect.analysis.bodies.body_tree import POSITIONS, sizes_of
from bascule.dialect.analysis.bodies.nested_loops import inner_loops, iterations
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu import clusters
from bascule.dialect.scheduling.gpu.contractions import CONSUMERS, SPECIALIZES
from bascule.dialect.scheduling.gpu.descriptors import SINCE
from bascule.dialect.scheduling.gpu.schedule_form import (
    MOST_KEPT,
    DomainSchedule,
    KernelSchedule,
    LoopSchedule,
    from_attribute,
    refusal,
)

MOST_WARPS, MOST_POINTS = 32, 1 << 20  # Triton's own limits
MOST_STAGES = 16  # of steps in flight: more are more than memory keeps waiting
MOST_RESIDENT = 64  # warps of a multiprocessor
LEAST_DOT = 16  # rows, columns and summed elements of a product of tensor cores
WARP_GROUP, LEAST_PART = 4, 64  # warps and rows of a warp group that multiplies while another loads
MOST_TILES = 16  # that a loop is held as: its body is emitted for each


def schedule_of(kernel: ir.Operation) -> KernelSchedule:
    """The schedule of a `bascule.kernel`. Raises `UserError` with its location if there is none for this target, or it does not fit."""
    schedule = from_attribute(kernel)
    _Check(kernel, schedule).domains()
    _check_launch(kernel, schedule)
    if schedule.cluster != 1:
        _check_cluster(kernel, schedule)
    return schedule


def _check_launch(kernel: ir.Operation, schedule: KernelSchedule) -> None:
    warps, resident = schedule.warps, schedule.resident
    if not _power_of_two(warps) or warps > MOST_WARPS:
        raise refusal(kernel, f"the schedule has {warps} warps")
    if not 1 <= schedule.stages <= MOST_STAGES:
        raise refusal(kernel, f"the schedule has {schedule.stages} stages")
    if schedule.index_bits not in (32, 64):
        raise refusal(kernel, f"the schedule has indices of {schedule.index_bits} bits")
    if schedule.narrow is not None and schedule.index_bits != 64:
        raise refusal(kernel, f"the schedule has 'narrow' and indices of {schedule.index_bits} bits")
    if not 0 <= resident * warps <= MOST_RESIDENT:
        raise refusal(kernel, f"the schedule has {resident} programs of {warps} warps on a multiprocessor")


def _check_cluster(kernel: ir.Operation, schedule: KernelSchedule) -> None:
    domain, reason = schedule.domains[0], clusters.unshared(kernel)
    if not clusters.has(schedule.capability):
        reason = f"sm_{schedule.capability}, which has none"
    elif max(domain.tile, default=1) > 1:
        reason = "a tile of several points"
    elif not reason and not all(loop.held and loop.step > 1 for loop in domain.loops):
        reason = "loops that are not held"
    if reason:
        raise refusal(kernel, f"the schedule has clusters of {schedule.cluster} programs for {reason}")


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _longest(loops: Sequence[LoopSchedule]) -> int:
    return max([1, *(max(loop.step, _longest(loop.loops)) for loop in loops)])


class _Check:
    """Refuses domains and loops that are not those of the kernel."""

    def __init__(self, kernel: ir.Operation, schedule: KernelSchedule):
        self.kernel, self.schedule = kernel, schedule

    def domains(self) -> None:
        kernel, schedule = self.kernel, self.schedule
        if not _power_of_two(schedule.cluster) or schedule.cluster > clusters.MOST:
            raise refusal(kernel, f"the schedule has clusters of {schedule.cluster} programs")
        ops = inner_loops(kernel) if schedule.group else [kernel]
        parts = len(schedule.domains)
        if schedule.group and (parts != len(ops) or any(op.name != "bascule.foreach" for op in ops)):
            raise refusal(kernel, f"the schedule has {parts} parts, the kernel {len(ops)} loops")
        for domain, op in zip(schedule.domains, ops):
            self._domain(domain, op)

    def _domain(self, domain: DomainSchedule, op: ir.Operation) -> None:
        order, axes, tile = domain.order, domain.axes, domain.tile
        self._permutes(order, op)
        if sum(axes) != len(order) or len(tile) != len(axes) or any(count < 1 for count in axes):
            raise refusal(
                self.kernel,
                f"the schedule's axes {list(axes)} and tile {list(tile)} are not those of {len(order)} dims",
            )
        if not all(map(_power_of_two, tile)):
            raise refusal(self.kernel, f"the schedule's tile {list(tile)} is not of powers of two")
        if domain.group < 1 or (domain.group > 1 and len(tile) < 2):
            raise refusal(self.kernel, f"the schedule has groups of {domain.group} along one of {len(tile)} axes")
        alone = self.schedule.group or self.schedule.cluster > 1 or not tile
        if domain.programs and (domain.programs < 0 or alone):
            what = f"{domain.programs} programs for one tile after the other"
            raise refusal(self.kernel, f"the schedule has {what}, in groups of launches, in clusters, or for one point")
        if domain.consumers:
            self._consumers(domain)
        self._loops(domain.loops, op)
        dot = any(loop.dot for loop in domain.loops)  # its pieces have a side of the tile each
        if dot:
            self._dot(domain)
        points = _longest(domain.loops) * max(tile) if dot else _longest(domain.loops) * prod(tile)
        if points > MOST_POINTS:
            raise refusal(self.kernel, f"the schedule has tiles of {points} elements, more than {MOST_POINTS}")

    def _dot(self, domain: DomainSchedule) -> None:
        matrix, batch = domain.tile[-2:], domain.tile[:-2]
        loops = [loop for loop in domain.loops if not loop.segments]
        least = min([*matrix, loops[0].step])
        walks = {(loop.dot, loop.walk) for loop in loops}
        if len(walks) != 1 or len(matrix) < 2 or max(batch, default=1) > 1 or least < LEAST_DOT:
            what = f"tensor cores for a tile of {list(domain.tile)}, steps of {[loop.step for loop in domain.loops]}"
            raise refusal(self.kernel, f"the schedule has {what}")

    def _consumers(self, domain: DomainSchedule) -> None:
        """Triton has two for one sum of products, each of which has half of a tile's rows."""
        loops, reason = domain.loops, None
        if self.schedule.capability // 10 != SPECIALIZES:
            reason = f"sm_{self.schedule.capability}, which has none"
        elif domain.consumers != CONSUMERS or self.schedule.warps != CONSUMERS * WARP_GROUP:
            reason = f"{self.schedule.warps} warps"
        elif not domain.programs or len(loops) != 1 or not loops[0].dot or len(loops[0].descriptors) != 2:
            reason = "what is not one sum of products by descriptors, tile after tile"
        elif domain.tile[-2] < CONSUMERS * LEAST_PART or len(domain.tile) > 2:
            reason = f"a tile of {list(domain.tile)}"
        if reason:
            raise refusal(
                self.kernel, f"the schedule has {domain.consumers} warp groups that only multiply for {reason}"
            )

    def _descriptors(self, loop: LoopSchedule, op: ir.Operation) -> None:
        numbers, reason = sorted(loop.descriptors), None
        if self.schedule.capability < SINCE:
            reason = f"sm_{self.schedule.capability}, which has none"
        elif self.schedule.group or not loop.dot or op.name != "bascule.reduce" or not {*numbers} <= {0, 1}:
            reason = f"factors {numbers} of what is no sum of products on tensor cores, in a domain of the kernel's own"
        if reason:
            raise refusal(self.kernel, f"the schedule has tensor descriptors for {reason}")

    def _loops(self, loops: Sequence[LoopSchedule], op: ir.Operation) -> None:
        inner = inner_loops(op)
        if len(loops) != len(inner):
            raise refusal(self.kernel, f"the schedule has {len(loops)} loops where the kernel has {len(inner)}")
        for loop, inside in zip(loops, inner):
            self._loop(loop, inside)
            if loop.descriptors:
                self._descriptors(loop, inside)
            if loop.segments and (loop.dot or not any(each.dot for each in loops)):
                raise refusal(self.kernel, "the schedule has segments of rows beside no product on tensor cores")
            self._loops(loop.loops, inside)

    def _loop(self, loop: LoopSchedule, op: ir.Operation) -> None:
        step, fold, held, kept = loop.step, loop.fold, loop.held, loop.kept
        self._permutes(loop.order, op)
        kind = op.attributes["kind"].value if "kind" in op.attributes else ""
        if (op.name == "bascule.scan" or kind in POSITIONS) and [*loop.order] != sorted(loop.order):
            raise refusal(
                self.kernel, f"the schedule's order {list(loop.order)} is of a loop whose points count in their own"
            )
        if not _power_of_two(step):
            raise refusal(self.kernel, f"the schedule's step {step} is not a power of two")
        if loop.evict not in ("normal", "first", "last"):
            raise refusal(self.kernel, f"the schedule's eviction is '{loop.evict}', not normal, first or last")
        if fold and (not _power_of_two(fold) or fold > step):
            raise refusal(self.kernel, f"the schedule folds {fold} neighbours of a step of {step}")
        points = iterations(sizes_of(op))
        if held and (fold or points is None or points > MOST_TILES * step * self.schedule.cluster):
            what = f"the schedule holds {points} points in tiles of {step}, more than {MOST_TILES} tiles"
            raise refusal(self.kernel, what)
        if kept and (kept < 0 or held or step == 1 or points is None or kept * step > points or kept > MOST_KEPT):
            what = f"the schedule keeps {kept} steps of {step} of {points} points, at most {MOST_KEPT}"
            raise refusal(self.kernel, what)

    def _permutes(self, order: Sequence[int], op: ir.Operation) -> None:
        rank = len(op.regions[0].blocks[0].arguments)
        if sorted(order) != list(range(rank)):
            raise refusal(self.kernel, f"the schedule's order {list(order)} is not one of {rank} dims")
