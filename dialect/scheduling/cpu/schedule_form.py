"""A kernel's schedule on a CPU as records, and as the attribute that `schedule-kernels` writes and the lowering reads.

Its keys are described at the pass. One that does not fit its kernel is refused where it is read: see `schedule_check.py`.
"""

from dataclasses import dataclass
from typing import Any

from ...errors import UserError
from ...ir.attributes import ScheduleAttr, i64
from ...ir.locations import source_of
from ...mlir import ir
from .loop_legality import Groups

SCRATCH, REGISTERS = "scratch", "registers"
# Vectors of a row whose variance is the sum of squared distances from the mean of the first: at the worst it is off by as many roundings.
SHORT = 32
NEAR = 4  # elements from lane to lane up to which whole vectors are read, and the lanes taken out of them


@dataclass(frozen=True)
class Tasks:
    """How a loop is cut into tiles, which threads share: a tile is one point of the groups that are neither blocked nor serial, and
    `block` points of the blocked group."""

    blocked: int = -1
    block: int = 1
    serial: tuple[int, ...] = ()  # groups walked in order inside every tile
    across: int = -1  # the group along which reads are taken as tiles and transposed
    rows: int = 0  # points of it in such a tile
    grain: int = 1  # points that are worth one more thread
    tile: str = SCRATCH  # where transposed tiles are kept: SCRATCH memory, or, squares, REGISTERS
    fission: int = 0  # lanes of the phases in which a tile's points go together; 0: they do not


@dataclass(frozen=True)
class LoopSchedule:
    """`groups`: the ranges, those of 1 left out, neighbours together that are walked as one. `vector`: the group of the lanes, or -1.
    `prefetch`: how far ahead of its reads memory is asked for, in bytes; 0: not. `short`: points up to which a reduction of a size that is not
    known has lanes of one register. `joins`: the number of the reduction in whose loop
    this one runs, or -1. `tasks`: of a loop that threads share."""

    groups: Groups = ()
    vector: int = -1
    lanes: int = 1
    tasks: Tasks | None = None
    joins: int = -1
    prefetch: int = 0
    short: int = 0


@dataclass(frozen=True)
class KernelSchedule:
    """`loops`: those inside the kernel, in the order of a walk that meets outer ones first. `nontemporal`: what is only stored goes past
    the caches."""

    domain: LoopSchedule
    loops: tuple[LoopSchedule, ...]
    nontemporal: bool = False


def refusal(op: ir.Operation, message: str) -> UserError:
    """The error for a schedule that does not fit the kernel or loop `op`."""
    return UserError(
        f"the schedule of this '{op.name}' {message}",
        location=source_of(op.location) or str(op.location),
        hint="schedule-kernels makes one that fits; docs/dialect.md describes its keys",
    )


def to_attribute(schedule: KernelSchedule) -> ir.DictAttr:
    known: dict[LoopSchedule, ir.DictAttr] = {}

    def loop(it: LoopSchedule) -> ir.DictAttr:
        if it not in known:
            known[it] = ir.DictAttr.get(_entries(it))
        return known[it]

    entries = {
        "target": ir.StringAttr.get("cpu"),
        "domain": loop(schedule.domain),
        "loops": ir.ArrayAttr.get([loop(it) for it in schedule.loops]),
    }
    if schedule.nontemporal:
        entries["nontemporal"] = ir.BoolAttr.get(True)
    return ir.DictAttr.get(entries)


def _entries(loop: LoopSchedule) -> dict[str, ir.Attribute]:
    if loop.joins >= 0:
        return {"joins": i64(loop.joins)}
    entries = {
        "groups": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(group) for group in loop.groups]),
        "vector": i64(loop.vector),
        "lanes": i64(loop.lanes),
    }
    if loop.prefetch:
        entries["prefetch"] = i64(loop.prefetch)
    if loop.short:
        entries["short"] = i64(loop.short)
    tasks = loop.tasks
    if tasks is not None:
        entries["blocked"] = i64(tasks.blocked)
        entries["block"] = i64(tasks.block)
        entries["serial"] = ir.DenseI64ArrayAttr.get(tasks.serial)
        if tasks.across >= 0:
            entries["across"], entries["rows"] = i64(tasks.across), i64(tasks.rows)
            entries["tile"] = ir.StringAttr.get(tasks.tile)
        entries["grain"] = i64(tasks.grain)
        if tasks.fission:
            entries["fission"] = i64(tasks.fission)
    return entries


def from_attribute(kernel: ir.Operation) -> KernelSchedule:
    """The schedule that `kernel` carries. Raises `UserError` with the kernel's location if it has none for a CPU."""
    if "schedule" not in kernel.attributes:
        raise UserError(
            "this kernel has no schedule",
            location=source_of(kernel.location) or str(kernel.location),
            hint="run schedule-kernels before",
        )
    config = ir.DictAttr(ScheduleAttr(kernel.attributes["schedule"]).config)
    target = config["target"].value if "target" in config else None
    if target != "cpu":
        raise refusal(kernel, f"is for target '{target}', not 'cpu'")
    try:
        nontemporal = "nontemporal" in config and config["nontemporal"].value
        return KernelSchedule(_loop(config["domain"]), tuple(map(_loop, config["loops"])), nontemporal)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise refusal(kernel, f"does not read: {error}") from None


def _loop(attribute: ir.Attribute) -> LoopSchedule:
    entries = {entry.name: _plain(entry.attr) for entry in ir.DictAttr(attribute)}
    if "joins" in entries:
        return LoopSchedule(joins=entries["joins"])
    groups, vector, lanes = (entries.pop(key) for key in ("groups", "vector", "lanes"))
    own = {key: entries.pop(key, 0) for key in ("prefetch", "short")}
    return LoopSchedule(groups, vector, lanes, Tasks(**entries) if entries else None, **own)


def _plain(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.IntegerAttr | ir.StringAttr):
        return attribute.value
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(map(_plain, attribute))
    return tuple(ir.DenseI64ArrayAttr(attribute))
