"""The difference of a module before and after a pass by structure: ops are matched by function, name and location, not by lines of text.
Values that are only numbered otherwise, and ops that only stand elsewhere in a block, are no difference; one that went into a loop, out of one,
or to another function, a kernel say, is told as such."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from ..ir.locations import operators_of, source_of
from ..mlir import ir
from ..passes.pipeline import Stage

Key = tuple[str, str, str]  # function, op name, location


@dataclass(frozen=True)
class Shape:
    """One op without what is inside of it: the op around it (of one with operands: a constant may stand anywhere), the types of its operands
    and results, the ops that make operands, and its attributes."""

    around: str
    types: str
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]

    def changes(self, other: "Shape") -> Iterator[str]:
        """The ways in which `other` is not the same."""
        if self.around != other.around:
            yield f"in {self.around} becomes in {other.around}"
        if self.types != other.types:
            yield f"{self.types} becomes {other.types}"
        if self.operands != other.operands:
            yield f"operands from ({', '.join(self.operands)}) become ({', '.join(other.operands)})"
        before, after = dict(self.attributes), dict(other.attributes)
        for name in sorted(before | after):
            if before.get(name) != after.get(name):
                yield f"{name} = {before.get(name, 'none')} becomes {after.get(name, 'none')}"


Unlike = tuple[list[tuple[Shape, Shape]], list[Shape], list[Shape]]  # of one key: changed, gone, new


def shapes_of(module: ir.Module) -> dict[Key, list[Shape]]:
    """The ops of a module by their keys; of one key, in order."""
    found: dict[Key, list[Shape]] = defaultdict(list)
    for function in (view.operation for view in module.body.operations):
        name = function.attributes["sym_name"].value if "sym_name" in function.attributes else function.name

        def visit(op: ir.Operation, name: str = name) -> ir.WalkResult:
            found[name, op.name, _place(op)].append(_shape(op))
            return ir.WalkResult.ADVANCE

        function.walk(visit)
    return found


def _shape(op: ir.Operation) -> Shape:
    types = f"({', '.join(str(v.type) for v in op.operands)}) -> ({', '.join(str(v.type) for v in op.results)})"
    makers = tuple("argument" if isinstance(v.owner, ir.Block) else v.owner.name for v in op.operands)
    around = op.parent.name if op.parent is not None and len(op.operands) else "any"
    return Shape(around, types, makers, tuple((named, str(op.attributes[named])) for named in op.attributes))


def _place(op: ir.Operation) -> str:
    names, source = operators_of(op.location), source_of(op.location)
    return " ".join([*names[-1:], *([f"({source})"] if source else [])]) or "no location"


def difference(before: dict[Key, list[Shape]], after: dict[Key, list[Shape]]) -> Iterator[str]:
    """Lines: functions that have differences, and in each the ops that are gone (-), new (+), changed (~), or in another function now (>)."""
    kept = {key: _unlike(before.get(key, ()), after.get(key, ())) for key in dict.fromkeys([*before, *after])}
    moved = _moved(kept)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(key[0] for key in kept))}
    said = None
    for function, name, place in sorted(kept, key=lambda key: numbers[key[0]]):
        changed, gone, new = kept[function, name, place]
        lines = [f"~ {name} {place}: {'; '.join(old.changes(other))}" for old, other in changed]
        lines += [f"> {name} {place} : to @{there}" for there in moved.get((function, name, place), ())]
        lines += [f"- {name} {place} : {old.types}" for old in gone]
        lines += [f"+ {name} {place} : {other.types}" for other in new]
        if lines and said != function:
            said = function
            yield f"@{said}"
        yield from (f"  {line}" for line in lines)


def _unlike(before: Sequence[Shape], after: Sequence[Shape]) -> Unlike:
    """The ops of one key without those that are the same."""
    olds, news = list(before), list(after)
    for same in before:
        if same in news:
            olds.remove(same)
            news.remove(same)
    both = min(len(olds), len(news))
    return list(zip(olds, news)), olds[both:], news[both:]


def _moved(kept: dict[Key, Unlike]) -> dict[Key, list[str]]:
    """The functions that ops went to, by the keys they had: one that is gone is that of its name, location and types which is new elsewhere.
    Such are taken out of `kept`."""
    homes: dict[tuple[str, str, str], list[Key]] = defaultdict(list)  # name, location, types: where such are new
    for key, (_, _, news) in kept.items():
        for new in news:
            homes[key[1], key[2], new.types].append(key)
    moved: dict[Key, list[str]] = defaultdict(list)
    for key, (_, gone, _) in kept.items():
        for old in list(gone):
            there = homes.get((key[1], key[2], old.types))
            if there:
                home = there.pop(0)
                gone.remove(old)
                kept[home][2].remove(next(new for new in kept[home][2] if new.types == old.types))
                moved[key].append(home[0])
    return moved


@dataclass
class PrintDifference:
    """Observer that prints after each pass what it changed."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _before: dict[Key, list[Shape]] = field(default_factory=dict)

    def __call__(self, when: str, stage: Stage, module: ir.Module) -> None:
        if when == "before":
            self._before = shapes_of(module)
        elif when == "after":
            lines = list(difference(self._before, shapes_of(module)))
            if lines:
                print(f"// -----// IR Difference by {stage.name} //----- //", *lines, sep="\n", file=self.stream)
