"""The pass `online-softmax`: a maximum and the sum of exponentials about it, in one walk over a long row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.nested_loops import inner_loops
from ...analysis.bodies.value_equality import equal
from ...ir.builders import symbols_of
from ...ir.functions import functions, kernel_op
from ...ir.regions import end_of
from ...mlir import ir
from ...scheduling.gpu.machine import H200, CudaMachine
from ...scheduling.gpu.planner import walked_loops
from ..base import EITHER, Pass, check_target


@dataclass(frozen=True)
class OnlineSoftmax(Pass):
    """Takes kernel functions; leaves `reduce` of kind "softmax" in place of a reduce "max" of x and a reduce "sum" of exp(x - max).

    Only where a row does not fit a GPU's registers (`schedule-kernels` would walk it), so that it is read once less: Milakov and
    Gimelshein, "Online normalizer calculation for softmax". It costs a select and a fused multiply an element. For a CPU, whose
    caches hold the rows, nothing changes.
    """

    name: ClassVar[str] = "online-softmax"
    takes: ClassVar[str] = EITHER
    target: str = "cpu"
    sm_count: int = H200.sm_count
    capability: int = H200.capability
    registers: int = H200.registers
    l2_bytes: int = H200.l2_bytes

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        machine = CudaMachine(self.sm_count, self.capability, self.registers, self.l2_bytes)
        with module.context:
            simplifier = Simplifier()
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None and _has_pairs(kernel):
                    walked = walked_loops(kernel, machine, Indexing(symbols_of(function), simplifier))
                    # The hash of an op changes with its operands: all are looked up before the first is changed.
                    for largest, total in [pair for pair in _pairs(kernel) if walked.issuperset(pair)]:
                        _join(largest, total)


def _has_pairs(kernel: ir.Operation) -> bool:
    return next(_pairs(kernel), None) is not None


def _pairs(loop: ir.Operation) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    """The reduces of a maximum, each with that of the sum about it."""
    loops = inner_loops(loop)
    for largest in loops:
        if _is(largest, "max"):
            for total in loops:
                if _is(total, "sum") and total.block == largest.block and _matches(largest, total):
                    yield largest, total
                    break
        yield from _pairs(largest)


def _is(loop: ir.Operation, kind: str) -> bool:
    floats = ir.F32Type, ir.F64Type
    named = loop.name == "bascule.reduce" and loop.attributes["kind"].value == kind
    return named and isinstance(loop.results[0].type, floats)


def _matches(largest: ir.Operation, total: ir.Operation) -> bool:
    """Whether `total` sums exp(x - largest) over the same places, x being what `largest` is the maximum of."""
    if largest.attributes["ranges"] != total.attributes["ranges"]:
        return False
    power = _owner(_yielded(total))
    if power is None or power.name != "math.exp":
        return False
    difference = _owner(power.operands[0])
    if difference is None or difference.name != "arith.subf" or difference.operands[1] != largest.results[0]:
        return False
    pairs = dict(zip(largest.regions[0].blocks[0].arguments, total.regions[0].blocks[0].arguments))
    return equal(_yielded(largest), difference.operands[0], pairs)


def _yielded(loop: ir.Operation) -> ir.Value:
    return end_of(loop.regions[0].blocks[0]).operands[0]


def _owner(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner


def _join(largest: ir.Operation, total: ir.Operation) -> None:
    result = largest.results[0].type
    attributes = {"kind": ir.StringAttr.get("softmax"), "ranges": largest.attributes["ranges"]}
    joined = ir.Operation.create(
        "bascule.reduce", [result, result], [], attributes, regions=1, loc=total.location, ip=ir.InsertionPoint(largest)
    )
    largest.regions[0].blocks[0].append_to(joined.regions[0])
    for old, new in zip((largest, total), joined.results):
        old.results[0].replace_all_uses_with(new)
    total.erase()
    largest.erase()
