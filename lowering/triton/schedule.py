"""Reads `#bascule.schedule` of a kernel: everything about how it runs on a GPU has been decided by `schedule-kernels{target=cuda}`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from bascule.dialect.analysis import cuda_clusters
from bascule.dialect.analysis.bodies import sizes_of
from bascule.dialect.analysis.cuda_walks import MOST_KEPT
from bascule.dialect.analysis.nested_loops import inner_loops, iterations
from bascule.dialect.errors import UserError
from bascule.dialect.ir.locations import source_of
from bascule.dialect.mlir import ir

MOST_WARPS, MOST_POINTS = 32, 1 << 20  # Triton's own limits
MOST_STAGES = 16  # of steps in flight: more are more than memory keeps waiting
MOST_RESIDENT = 64  # warps of a multiprocessor
MOST_TILES = 16  # that a loop is held as: its body is emitted for each


@dataclass(frozen=True)
class LoopSchedule:
    """Of an inner loop: its ranges in the order they are flattened, the points in a tile, the walk it belongs to, what is kept in L2,
    the walk that its reductions go along with (-1: none), the neighbours that a thread takes into its state together (0: each has one);
    whether all its tiles are held at once; of a walk, the steps whose reads are kept in registers for later walks."""

    order: tuple[int, ...]
    step: int
    walk: int
    evict: str
    along: int = -1
    fold: int = 0
    held: bool = False
    kept: int = 0
    loops: tuple["LoopSchedule", ...] = ()


@dataclass(frozen=True)
class DomainSchedule:
    """Of a parallel domain: its dims in the order they are flattened, how many of them make an axis, and points of a tile along
    each; a program has one tile."""

    order: tuple[int, ...]
    axes: tuple[int, ...]
    tile: tuple[int, ...]
    loops: tuple[LoopSchedule, ...]


@dataclass(frozen=True)
class Schedule:
    """`domains`: the kernel's own, or (`group`) one for each top-level foreach. `narrow`: where indices of 64 bits are not always needed,
    expressions that say when. `resident`: programs of a multiprocessor
    that registers leave room for (0: as it comes). `cluster`: programs that share a tile."""

    domains: tuple[DomainSchedule, ...]
    group: bool
    warps: int
    stages: int
    index_bits: int
    capability: int
    narrow: ir.AffineMap | None = None
    resident: int = 0
    cluster: int = 1


def schedule_of(kernel: ir.Operation) -> Schedule:
    """The schedule of a `bascule.kernel`. Raises `UserError` with its location if there is none for this target, or it does not fit."""
    if "schedule" not in kernel.attributes:
        _refuse(kernel, "the kernel has no schedule")
    config = _entries(kernel.attributes["schedule"].config)
    target = config["target"].value if "target" in config else None
    if target != "cuda":
        _refuse(kernel, f"the kernel's schedule is for target '{target}'")
    cluster = cuda_clusters.shared_by(kernel)
    if not _power_of_two(cluster) or cluster > cuda_clusters.MOST:
        _refuse(kernel, f"the schedule has clusters of {cluster} programs")
    reader = _Reader(kernel, cluster)
    group = "parts" in config
    if group:
        loops = inner_loops(kernel)
        parts = list(config["parts"])
        if len(parts) != len(loops) or any(loop.name != "bascule.foreach" for loop in loops):
            _refuse(kernel, f"the schedule has {len(parts)} parts, the kernel {len(loops)} loops")
        domains = tuple(reader.domain(_entries(part), loop) for part, loop in zip(parts, loops))
    else:
        domains = (reader.domain(config, kernel),)
    warps, stages = (reader.number(config, name) for name in ("warps", "stages"))
    index_bits, capability = (reader.number(config, name) for name in ("index_bits", "capability"))
    if not _power_of_two(warps) or warps > MOST_WARPS:
        _refuse(kernel, f"the schedule has {warps} warps")
    if not 1 <= stages <= MOST_STAGES:
        _refuse(kernel, f"the schedule has {stages} stages")
    if index_bits not in (32, 64):
        _refuse(kernel, f"the schedule has indices of {index_bits} bits")
    narrow = config["narrow"].value if "narrow" in config else None
    if narrow is not None and index_bits != 64:
        _refuse(kernel, f"the schedule has 'narrow' and indices of {index_bits} bits")
    resident = config["resident"].value if "resident" in config else 0
    if not 0 <= resident * warps <= MOST_RESIDENT:
        _refuse(kernel, f"the schedule has {resident} programs of {warps} warps on a multiprocessor")
    if cluster != 1:
        _check_cluster(kernel, cluster, domains[0], capability)
    return Schedule(domains, group, warps, stages, index_bits, capability, narrow, resident, cluster)


def _check_cluster(kernel: ir.Operation, cluster: int, domain: DomainSchedule, capability: int) -> None:
    reason = cuda_clusters.unshared(kernel)
    if not cuda_clusters.has(capability):
        reason = f"sm_{capability}, which has none"
    elif max(domain.tile, default=1) > 1:
        reason = "a tile of several points"
    elif not reason and not all(loop.held and loop.step > 1 for loop in domain.loops):
        reason = "loops that are not held"
    if reason:
        _refuse(kernel, f"the schedule has clusters of {cluster} programs for {reason}")


def _refuse(kernel: ir.Operation, what: str) -> NoReturn:
    raise UserError(what, location=source_of(kernel.location), hint="schedule-kernels{target=cuda} makes schedules")


def _entries(config: ir.Attribute) -> dict[str, ir.Attribute]:
    return {entry.name: entry.attr for entry in ir.DictAttr(config)}


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _longest(loops: Sequence[LoopSchedule]) -> int:
    return max([1, *(max(loop.step, _longest(loop.loops)) for loop in loops)])


class _Reader:
    """Reads keys, and refuses what does not fit the kernel."""

    def __init__(self, kernel: ir.Operation, cluster: int):
        self.kernel, self.cluster = kernel, cluster

    def domain(self, config: dict[str, ir.Attribute], op: ir.Operation) -> DomainSchedule:
        order, axes, tile = (self.numbers(config, name) for name in ("order", "axes", "tile"))
        self._permutes(order, op)
        if sum(axes) != len(order) or len(tile) != len(axes) or any(count < 1 for count in axes):
            _refuse(
                self.kernel,
                f"the schedule's axes {list(axes)} and tile {list(tile)} are not those of {len(order)} dims",
            )
        if not all(map(_power_of_two, tile)):
            _refuse(self.kernel, f"the schedule's tile {list(tile)} is not of powers of two")
        loops = self.loops(config, op)
        points = _longest(loops)
        for extent in tile:
            points *= extent
        if points > MOST_POINTS:
            _refuse(self.kernel, f"the schedule has tiles of {points} elements, more than {MOST_POINTS}")
        return DomainSchedule(order, axes, tile, loops)

    def loops(self, config: dict[str, ir.Attribute], op: ir.Operation) -> tuple[LoopSchedule, ...]:
        entries, inner = list(self._found(config, "loops")), inner_loops(op)
        if len(entries) != len(inner):
            _refuse(self.kernel, f"the schedule has {len(entries)} loops where the kernel has {len(inner)}")
        return tuple(self.loop(_entries(entry), loop) for entry, loop in zip(entries, inner))

    def loop(self, config: dict[str, ir.Attribute], op: ir.Operation) -> LoopSchedule:
        order, step = self.numbers(config, "order"), self.number(config, "step")
        self._permutes(order, op)
        if not _power_of_two(step):
            _refuse(self.kernel, f"the schedule's step {step} is not a power of two")
        evict = self._found(config, "evict").value
        if evict not in ("normal", "first", "last"):
            _refuse(self.kernel, f"the schedule's eviction is '{evict}', not normal, first or last")
        walk, along, fold = (self.number(config, name) for name in ("walk", "along", "fold"))
        if fold and (not _power_of_two(fold) or fold > step):
            _refuse(self.kernel, f"the schedule folds {fold} neighbours of a step of {step}")
        held = self.flag(config, "held")
        points = iterations(sizes_of(op))
        if held and (fold or points is None or points > MOST_TILES * step * self.cluster):
            _refuse(self.kernel, f"the schedule holds {points} points in tiles of {step}, more than {MOST_TILES} tiles")
        kept = self.number(config, "kept") if "kept" in config else 0
        if kept and (kept < 0 or held or step == 1 or points is None or kept * step > points or kept > MOST_KEPT):
            _refuse(self.kernel, f"the schedule keeps {kept} steps of {step} of {points} points, at most {MOST_KEPT}")
        return LoopSchedule(order, step, walk, evict, along, fold, held, kept, self.loops(config, op))

    def flag(self, config: dict[str, ir.Attribute], name: str) -> bool:
        """A key that may be left out."""
        return name in config and config[name].value

    def number(self, config: dict[str, ir.Attribute], name: str) -> int:
        return self._found(config, name).value

    def numbers(self, config: dict[str, ir.Attribute], name: str) -> tuple[int, ...]:
        return tuple(self._found(config, name))

    def _found(self, config: dict[str, ir.Attribute], name: str) -> ir.Attribute:
        if name not in config:
            _refuse(self.kernel, f"the schedule has no '{name}'")
        return config[name]

    def _permutes(self, order: Sequence[int], op: ir.Operation) -> None:
        rank = len(op.regions[0].blocks[0].arguments)
        if sorted(order) != list(range(rank)):
            _refuse(self.kernel, f"the schedule's order {list(order)} is not one of {rank} dims")
