"""Schedules near a kernel's own for an NVIDIA GPU: what `max_autotune` measures. Each is one decision of `cuda_schedules.py` taken otherwise.

A neighbour differs in numbers that a lowering takes as they are: which loops are held in registers, walked, walked together or carried along
stays as it was decided, and with it what a program may not do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from ..ir.attributes import ScheduleAttr
from ..mlir import ir
from .cuda_clusters import MOST as MOST_PROGRAMS
from .cuda_clusters import shared_by
from .cuda_machine import WARP
from .cuda_walks import MOST_KEPT, i64, walks
from .nested_loops import inner_loops

MOST_WARPS, MOST_STAGES = 32, 4
MOST_ELEMENTS = 1 << 15  # of a program's tile at a step of its loops: 32 a thread of 32 warps
MOST_HELD = 128  # of them, that a thread has: more are spilled, and assembling takes minutes
LEAST_STEP = 32  # points of a loop at once: a warp's

Config = dict[str, ir.Attribute]


@dataclass(frozen=True)
class Neighbour:
    """`change` names what differs: "warps 4 -> 8"."""

    change: str
    schedule: ScheduleAttr


def neighbours(kernel: ir.Operation) -> list[Neighbour]:
    """At most nine schedules near that of `kernel`, a `bascule.kernel` with one for a GPU. To be called in its context."""
    config = _entries(kernel.attributes["schedule"].config)
    return [Neighbour(change, ScheduleAttr.get(ir.DictAttr.get(near))) for change, near in _near(kernel, config)]


def _near(kernel: ir.Operation, config: Config) -> Iterator[tuple[str, Config]]:
    warps, stages = config["warps"].value, config["stages"].value
    most = max(map(_elements, map(_entries, config["parts"]) if "parts" in config else [config]))
    for other in (2 * warps, warps // 2):
        if 1 <= other <= MOST_WARPS and (other > warps or most <= MOST_HELD * WARP * other):
            yield f"warps {warps} -> {other}", config | _warps(config, other)
    wider = _each_domain(kernel, config, partial(_steps, double=True))
    if wider is not None and 2 * warps <= MOST_WARPS:
        yield f"warps {warps} -> {2 * warps}, steps x 2", wider | _warps(config, 2 * warps)
    programs = shared_by(kernel)
    for other in (2 * programs, programs // 2) if programs > 1 else ():
        if 1 < other <= MOST_PROGRAMS:
            yield f"cluster {programs} -> {other}", config | {"cluster": i64(other)}
    for double in (True, False):
        tiled = _each_domain(kernel, config, partial(_tile, double=double)) if programs == 1 else None
        if tiled is not None:
            yield "tile x 2" if double else "tile / 2", tiled
    for double in (True, False):
        stepped = _each_domain(kernel, config, partial(_steps, double=double))
        if stepped is not None:
            yield "steps x 2" if double else "steps / 2", stepped
    if _each_domain(kernel, config, partial(_steps, double=None)) is not None:  # only walks are read ahead
        for other in (stages + 1, stages - 1):
            if 1 <= other <= MOST_STAGES:
                yield f"stages {stages} -> {other}", config | {"stages": i64(other)}


def _warps(config: Config, warps: int) -> Config:
    """The keys of programs of `warps`: as many of those warps as before have room on a multiprocessor."""
    keys: Config = {"warps": i64(warps)}
    if "resident" in config:
        keys["resident"] = i64(max(1, config["resident"].value * config["warps"].value // warps))
    return keys


def _each_domain(
    kernel: ir.Operation, config: Config, change: Callable[[ir.Operation, Config], Config | None]
) -> Config | None:
    """`config` with each of its domains changed; None where none changes, or one has too many elements then."""
    if "parts" not in config:
        return _fitting(config, change(kernel, config))
    parts = [_entries(part) for part in config["parts"]]
    changed = [_fitting(part, change(op, part)) for op, part in zip(inner_loops(kernel), parts)]
    if all(part is None for part in changed):
        return None
    kept = [ir.DictAttr.get(new or old) for new, old in zip(changed, parts)]
    return config | {"parts": ir.ArrayAttr.get(kept)}


def _fitting(before: Config, after: Config | None) -> Config | None:
    return None if after is None or _elements(after) > max(MOST_ELEMENTS, _elements(before)) else after


def _elements(domain: Config) -> int:
    """Of a program's tile at the longest step, or all the steps that it keeps."""
    return prod(domain["tile"]) * _longest(domain["loops"])


def _longest(loops: ir.ArrayAttr) -> int:
    entries = [_entries(loop) for loop in loops]
    return max([1, *(max(entry["step"].value * _kept(entry), _longest(entry["loops"])) for entry in entries)])


def _kept(loop: Config) -> int:
    """The steps of a loop that are in registers at once."""
    return loop["kept"].value if "kept" in loop else 1


def _tile(op: ir.Operation, domain: Config, double: bool) -> Config | None:
    """The last axis of the tile twice or half as long."""
    tile = list(domain["tile"])
    if not tile or (tile[-1] == 1 and not double):
        return None
    tile[-1] = tile[-1] * 2 if double else tile[-1] // 2
    return domain | {"tile": ir.DenseI64ArrayAttr.get(tile)}


def _steps(op: ir.Operation, domain: Config, double: bool | None) -> Config | None:
    """The loops that are walked, with steps twice or half as long (None: as they are); a walk stays one. None where there is no such loop,
    or a step would be the whole of one or too short."""
    changed = False

    def stepped(loop: ir.Operation, entry: Config) -> Config | None:
        nonlocal changed
        inner = nested(inner_loops(loop), entry)
        if inner is None:
            return None
        step = entry["step"].value
        if "held" not in entry and walks(loop, step):
            changed = True
            step = step if double is None else 2 * step if double else step // 2
            if step < LEAST_STEP or not walks(loop, step):
                return None
        kept = {"kept": i64(entry["kept"].value * entry["step"].value // step)} if "kept" in entry else {}
        return None if kept and not 1 <= kept["kept"].value <= MOST_KEPT else inner | {"step": i64(step)} | kept

    def nested(loops: list[ir.Operation], entry: Config) -> Config | None:
        made = [stepped(loop, _entries(part)) for loop, part in zip(loops, entry["loops"])]
        if any(part is None for part in made):
            return None
        return entry | {"loops": ir.ArrayAttr.get([ir.DictAttr.get(part) for part in made])}

    result = nested(inner_loops(op), domain)
    return result if changed else None


def _entries(config: ir.Attribute) -> Config:
    return {entry.name: entry.attr for entry in ir.DictAttr(config)}
