"""The record of each kernel of a module of the program stage: what it computes, reads and writes, and how it is scheduled."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from ..dialect.analysis.bodies.body_summary import Body
from ..dialect.analysis.bodies.body_tree import ACCESSES, LOOPS, Block
from ..dialect.analysis.bodies.costs import magnitude
from ..dialect.analysis.memory.buffers import strides
from ..dialect.ir.attributes import ScheduleAttr
from ..dialect.ir.functions import functions, kernel_op
from ..dialect.ir.locations import source_of
from ..dialect.ir.regions import ops_in
from ..dialect.ir.types import byte_width
from ..dialect.machines.measures import value
from ..dialect.mlir import ir
from ..reporting.module_summary import kernels

FREE = (
    "arith.constant",
    "arith.index",
    "arith.ext",
    "arith.trunc",
    "arith.bitcast",
    "arith.sitofp",
    "arith.uitofp",
    "arith.fptosi",
)


def kernel_records(module: ir.Module, target: str) -> list[dict[str, Any]]:
    """One a kernel function, in the order of the module."""
    by_name = {f.attributes["sym_name"].value: f for f in functions(module)}
    return [
        {
            "name": kernel.name,
            "calls": kernel.calls,
            "domain": kernel.domain,
            "operators": list(kernel.operators),
            **_of(by_name[kernel.name], target),
            "tuned": kernel.tuned,
            "registers": None,
            "shared_bytes": None,
            "measured_us": None,
        }
        for kernel in kernels(module)
    ]


def _of(function: ir.Operation, target: str) -> dict[str, Any]:
    kernel = kernel_op(function)
    assert kernel is not None  # `kernels` names no other
    parameters = [_parameter(argument, roles) for argument, roles in roles_of(function)]
    moved = {way: _sum(p["bytes"] for p in parameters if p[way]) for way in ("read", "written")}
    traffic = _sum(moved.values())
    schedule = kernel.attributes["schedule"] if "schedule" in kernel.attributes else None
    places = (source_of(op.location) for op in ops_in(kernel))
    return {
        "sources": list(dict.fromkeys(place for place in places if place is not None)),
        "parameters": parameters,
        "bytes_read": moved["read"],
        "bytes_written": moved["written"],
        "flops": flops_of(kernel),
        "schedule": plain(ir.DictAttr(schedule.config)) if isinstance(schedule, ScheduleAttr) else None,
        "predicted_us": 1e6 * traffic / value("h200", "memory_rate")
        if target == "cuda" and traffic is not None
        else None,
    }


def roles_of(function: ir.Operation) -> Iterator[tuple[ir.Value, tuple[bool, bool]]]:
    """The buffers of a kernel function, each with whether it is read and whether it is written."""
    kernel, read, written = kernel_op(function), set[ir.Value](), set[ir.Value]()
    for op in ops_in(kernel):
        if op.name in ACCESSES:
            (read if ACCESSES[op.name] == 1 else written).add(op.operands[ACCESSES[op.name] - 1])
    for argument in function.regions[0].blocks[0].arguments:
        if isinstance(argument.type, ir.MemRefType):
            yield argument, (argument in read, argument in written)


def _parameter(argument: ir.Value, roles: tuple[bool, bool]) -> dict[str, Any]:
    read, written = roles
    return {**type_record(argument.type), "read": read, "written": written}


def type_record(type_: ir.MemRefType) -> dict[str, Any]:
    """Sizes ("?" where they are dynamic), dtype, strides and bytes (null where they are dynamic)."""
    shape = ["?" if type_.is_dynamic_dim(i) else type_.get_dim_size(i) for i in range(type_.rank)]
    dynamic = not type_.has_static_shape
    return {
        "shape": shape,
        "dtype": str(type_.element_type),
        "strides": [str(stride) if dynamic else int(str(stride)) for stride in strides(type_)],
        "bytes": None if dynamic else prod(type_.shape) * byte_width(type_.element_type),
    }


def _sum(counts: Any) -> int | None:
    found = list(counts)
    return None if None in found else sum(found)


Points = Callable[[Sequence[ir.AffineExpr]], int]  # of a domain of those sizes


def flops_of(kernel: ir.Operation, points: Points = magnitude) -> int:
    """Scalar operations on floats over the whole domain; an element that a reduction takes in is one. By itself, symbols count as 256
    (`costs.py`)."""
    root = Body(kernel).root
    return points(root.sizes) * _flops(root.blocks[0], points)


def _flops(block: Block, points: Points) -> int:
    found = 0
    for node in block.nodes:
        inside = sum(_flops(inner, points) for inner in node.blocks)
        if node.name in LOOPS:
            reduces = 1 if node.name in ("bascule.reduce", "bascule.scan") else 0
            found += points(node.sizes) * (inside + reduces)
        else:
            found += inside + _is_arithmetic(node.op)
    return found


def _is_arithmetic(op: ir.Operation) -> bool:
    counted = op.name.startswith(("arith.", "math.")) and not op.name.startswith(FREE)
    return counted and any(isinstance(result.type, ir.FloatType) for result in op.results)


def plain(attribute: ir.Attribute) -> Any:
    """An attribute of a schedule as JSON has it."""
    if isinstance(attribute, ir.DictAttr):
        return {named.name: plain(named.attr) for named in attribute}
    if isinstance(attribute, ir.ArrayAttr):
        return [plain(entry) for entry in attribute]
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    if isinstance(attribute, ir.UnitAttr):
        return True
    return attribute.value if isinstance(attribute, ir.StringAttr | ir.IntegerAttr | ir.BoolAttr) else str(attribute)
