"""The `bascule` dialect: `context()` makes an MLIR context that has it."""

from threading import Lock

from ..mlir import ir, register_torch_dialect
from .attributes import LayoutAttr, OperandAttr, ScheduleAttr
from .definition import Bascule, build
from .loop_ops import ComputeOp, ForeachOp, KernelOp, ReduceOp, ScanOp, YieldOp
from .memory_ops import CopyIntoOp, ScatterOp, StoreOp, ViewOp
from .random_op import RandomOp

_loading = Lock()  # the bindings' loading of a dialect is not safe in several threads at once


# Those that our passes and code generators make operations of. Loading all of them takes 9 ms a context, several times a graph.
DIALECTS = ("affine", "arith", "bufferization", "cf", "func", "irdl", "math", "memref", "scf", "tensor", "vector")


def context(*, unregistered: bool = False) -> ir.Context:
    """A new MLIR context with this dialect, the torch dialect and those of `DIALECTS`. What is parsed, and the passes of MLIR, load what they
    need besides; passes from outside find all dialects loaded. `unregistered`: operations of dialects that nobody knows are taken too."""
    ctx = ir.Context(load_on_create_dialects=DIALECTS)
    ctx.allow_unregistered_dialects = unregistered
    with ctx, _loading:
        Bascule.load()
        register_torch_dialect(ctx)
    return ctx


__all__ = [
    "Bascule",
    "ComputeOp",
    "CopyIntoOp",
    "ForeachOp",
    "KernelOp",
    "LayoutAttr",
    "OperandAttr",
    "RandomOp",
    "ReduceOp",
    "ScanOp",
    "ScatterOp",
    "ScheduleAttr",
    "StoreOp",
    "ViewOp",
    "YieldOp",
    "build",
    "context",
]
