"""How kernels run on a CPU: the choice behind each key of `#bascule.schedule`."""

from dataclasses import dataclass

from ..ir.memory import StoreOp
from ..ir.shapes import constant
from ..ir.types import byte_width
from ..mlir import ir

INNER_LOOPS = ("bascule.reduce", "bascule.foreach", "bascule.compute", "bascule.scan")


@dataclass(frozen=True)
class CpuMachine:
    """What a schedule depends on: the width of a vector register in bits."""

    vector_bits: int


def cpu_schedule(kernel: ir.Operation, machine: CpuMachine) -> ir.DictAttr:
    """The schedule of one `bascule.kernel`."""
    part = _part(kernel, machine)
    return ir.DictAttr.get({"target": ir.StringAttr.get("cpu"), **part})


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _part(loop: ir.Operation, machine: CpuMachine) -> dict[str, ir.Attribute]:
    """The schedule of a kernel, or of one top-level foreach of a group."""
    block = loop.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    inner = [op for op in ops if op.name in INNER_LOOPS]
    rank = len(block.arguments)
    if loop.name == "bascule.kernel" and rank == 0 and inner and all(op.name == "bascule.foreach" for op in inner):
        if len(inner) > 1:
            parts = [ir.DictAttr.get(_part(op, machine)) for op in inner]
            return {"kind": ir.StringAttr.get("group"), "parts": ir.ArrayAttr.get(parts)}
    names = {op.name for op in inner}
    stores = [op for op in ops if op.name == StoreOp.OPERATION_NAME]
    modes = {op.attributes["mode"].value if "mode" in op.attributes else "set" for op in stores}
    kind = "scan" if "bascule.scan" in names else "row" if inner else "pointwise"
    serial = modes != {"set"} and bool(stores)
    if serial:
        kind = "scatter"
    width = max((byte_width(op.operands[0].type) for op in stores), default=4)
    lanes = 1 if kind in ("scatter",) else max(1, machine.vector_bits // 8 // width)
    along = rank - 1 if kind == "pointwise" and rank else -1
    loops = [len(op.regions[0].blocks[0].arguments) - 1 if kind in ("row", "scan") else -1 for op in inner]
    points = 1
    for size in loop.attributes["ranges"].value.results:
        points *= constant(size) or 64
    return {
        "kind": ir.StringAttr.get(kind),
        "vector": _i64(lanes),
        "vector_dim": _i64(along),
        "loops": ir.DenseI64ArrayAttr.get(loops),
        "unroll": _i64(1 if lanes == 1 else 4),
        "tile": ir.DenseI64ArrayAttr.get([0] * rank),
        "grain": _i64(0 if serial else 1 if inner else 16384),
        "serial": ir.BoolAttr.get(serial),
    }
