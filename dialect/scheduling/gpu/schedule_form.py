"""A kernel's schedule on a GPU as records, and as the attribute that `schedule-kernels` writes and the lowering reads.

Its keys are described at the pass. One that does not fit its kernel is refused by the lowering.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...analysis.bodies.nested_loops import inner_loops, iterations
from ...errors import UserError
from ...ir.attributes import ScheduleAttr, i64
from ...ir.locations import source_of
from ...mlir import ir

MOST_KEPT = 16  # steps of a walk: the loop's body is emitted for each

Config = dict[str, ir.Attribute]


@dataclass
class LoopSchedule:
    """Of an inner loop: its ranges in the order they are flattened, the points in a tile, the walk it belongs to, the walk that its
    reductions go along with (-1: none), what is kept in L2, the neighbours that a thread takes into its state together (0: each has one);
    whether all its tiles are held at once; of a walk, the steps whose reads are kept in registers for later walks; whether it is a contraction
    that tensor cores run (`dot`), and which of its factors, by number, tensor descriptors load; whether it takes no steps whose scores a mask
    makes -inf (`skip`); whether it counts the segments before a row, of which a program has rows of one (`segments`)."""

    order: Sequence[int]
    step: int = 1
    walk: int = 0
    along: int = -1
    evict: str = "normal"
    fold: int = 0
    held: bool = False
    kept: int = 0
    dot: bool = False
    skip: bool = False
    segments: bool = False
    descriptors: Sequence[int] = ()
    loops: Sequence["LoopSchedule"] = ()

    def walks(self, sizes: Sequence[ir.AffineExpr]) -> bool:
        """Whether the loop of `sizes`, whose schedule this is, takes several steps of more than a point, one after the other."""
        length = iterations(sizes)
        return not self.held and self.step > 1 and (length is None or self.step < length)


@dataclass
class DomainSchedule:
    """Of a parallel domain: its dims in the order they are flattened, how many of them make an axis, and points of a tile along
    each; a program has one tile, or, where there are at most so many `programs`, one after the other. `kind`: for readers. `group`: tiles along
    the last axis but one which follow each other, for each tile along the last. `consumers`: warp groups which multiply a part of each tile,
    all that the program's warps are, while one more loads for them (0: each warp does both)."""

    kind: str = field(compare=False)
    order: Sequence[int]
    axes: Sequence[int]
    tile: Sequence[int]
    loops: Sequence[LoopSchedule] = field(default=(), kw_only=True)
    group: int = field(default=1, kw_only=True)
    programs: int = field(default=0, kw_only=True)
    consumers: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class KernelSchedule:
    """`domains`: the kernel's own, or (`group`) one for each top-level foreach. `narrow`: where indices of 64 bits are not always needed,
    expressions that say when. `resident`: programs of a multiprocessor that registers leave room for (0: as it comes). `cluster`: programs
    that share a tile."""

    domains: Sequence[DomainSchedule]
    group: bool
    warps: int
    stages: int
    index_bits: int
    capability: int
    narrow: ir.AffineMap | None = None
    resident: int = 0
    cluster: int = 1


def refusal(kernel: ir.Operation, message: str) -> UserError:
    """The error for a schedule that does not fit `kernel`."""
    return UserError(message, location=source_of(kernel.location), hint="schedule-kernels{target=cuda} makes schedules")


def to_attribute(schedule: KernelSchedule) -> ir.DictAttr:
    if schedule.group:
        parts = ir.ArrayAttr.get([ir.DictAttr.get(_of_domain(domain)) for domain in schedule.domains])
        keys: Config = {"kind": ir.StringAttr.get("group"), "parts": parts}
    else:
        keys = _of_domain(schedule.domains[0])
    keys["target"] = ir.StringAttr.get("cuda")
    for name in ("warps", "stages", "index_bits", "capability"):
        keys[name] = i64(getattr(schedule, name))
    if schedule.narrow is not None:
        keys["narrow"] = ir.AffineMapAttr.get(schedule.narrow)
    if schedule.resident:
        keys["resident"] = i64(schedule.resident)
    if schedule.cluster > 1:
        keys["cluster"] = i64(schedule.cluster)
    return ir.DictAttr.get(keys)


def walks_of(kernel: ir.Operation) -> dict[ir.Operation, int]:
    """The walk of each loop in the domain of `kernel`, by its schedule; nothing where loops run as they stand."""
    config = ir.DictAttr(kernel.attributes["schedule"].config) if "schedule" in kernel.attributes else {}
    plans = map(ir.DictAttr, config["loops"]) if "loops" in config else ()
    return {loop: plan["walk"].value for loop, plan in zip(inner_loops(kernel), plans) if "walk" in plan}


def _of_domain(domain: DomainSchedule) -> Config:
    keys: Config = {name: ir.DenseI64ArrayAttr.get(getattr(domain, name)) for name in ("order", "axes", "tile")}
    if domain.group > 1:
        keys["group"] = i64(domain.group)
    if domain.programs:
        keys["programs"] = i64(domain.programs)
    if domain.consumers:
        keys["consumers"] = i64(domain.consumers)
    return keys | {"kind": ir.StringAttr.get(domain.kind), "loops": _of_loops(domain.loops)}


def _of_loops(loops: Sequence[LoopSchedule]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([_of_loop(loop) for loop in loops])


def _of_loop(loop: LoopSchedule) -> ir.DictAttr:
    keys: Config = {name: i64(getattr(loop, name)) for name in ("step", "walk", "along", "fold")}
    keys["order"] = ir.DenseI64ArrayAttr.get(loop.order)
    keys["evict"] = ir.StringAttr.get(loop.evict)
    keys["loops"] = _of_loops(loop.loops)
    for name in ("held", "dot", "skip", "segments"):
        if getattr(loop, name):
            keys[name] = ir.BoolAttr.get(True)
    if loop.kept:
        keys["kept"] = i64(loop.kept)
    if loop.descriptors:
        keys["descriptors"] = ir.DenseI64ArrayAttr.get(loop.descriptors)
    return ir.DictAttr.get(keys)


def from_attribute(kernel: ir.Operation) -> KernelSchedule:
    """The schedule that `kernel` carries. Raises `UserError` with the kernel's location if it has none for a GPU, or one without a key."""
    if "schedule" not in kernel.attributes:
        raise refusal(kernel, "the kernel has no schedule")
    config = _entries(ScheduleAttr(kernel.attributes["schedule"]).config)
    target = config["target"].value if "target" in config else None
    if target != "cuda":
        raise refusal(kernel, f"the kernel's schedule is for target '{target}'")
    try:
        parts = [_entries(part) for part in config["parts"]] if "parts" in config else [config]
        return KernelSchedule(
            [_domain(part) for part in parts],
            "parts" in config,
            **{name: config[name].value for name in ("warps", "stages", "index_bits", "capability")},
            narrow=config["narrow"].value if "narrow" in config else None,
            resident=config["resident"].value if "resident" in config else 0,
            cluster=config["cluster"].value if "cluster" in config else 1,
        )
    except KeyError as error:
        raise refusal(kernel, f"the schedule has no {error}") from None


def _domain(config: Config) -> DomainSchedule:
    order, axes, tile = (tuple(config[name]) for name in ("order", "axes", "tile"))
    kind = config["kind"].value if "kind" in config else ""
    numbers = {name: config[name].value for name in ("group", "programs", "consumers") if name in config}
    return DomainSchedule(kind, order, axes, tile, loops=_loops(config), **numbers)


def _loops(config: Config) -> tuple[LoopSchedule, ...]:
    return tuple(_loop(_entries(loop)) for loop in config["loops"])


def _loop(config: Config) -> LoopSchedule:
    return LoopSchedule(
        tuple(config["order"]),
        **{name: config[name].value for name in ("step", "walk", "along", "evict", "fold")},
        held=_flag(config, "held"),
        dot=_flag(config, "dot"),
        skip=_flag(config, "skip"),
        segments=_flag(config, "segments"),
        kept=config["kept"].value if "kept" in config else 0,
        descriptors=tuple(config["descriptors"]) if "descriptors" in config else (),
        loops=_loops(config),
    )


def _flag(config: Config, name: str) -> bool:
    return name in config and config[name].value


def _entries(config: ir.Attribute) -> Config:
    return {entry.name: entry.attr for entry in ir.DictAttr(config)}
