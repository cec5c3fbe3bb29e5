"""The `bascule` dialect: `context()` makes an MLIR context that has it."""

from threading import Lock

from ..mlir import ir, torch_dialect
from .attributes import LayoutAttr, OperandAttr, ScheduleAttr
from .definition import Bascule, build
from .loop_ops import ComputeOp, ForeachOp, KernelOp, ReduceOp, ScanOp, YieldOp
from .memory_ops import CopyIntoOp, ScatterOp, StoreOp, ViewOp
from .random_op import RandomOp

_loading = Lock()  # the bindings' loading of a dialect is not safe in several threads at once


def context() -> ir.Context:
    """A new MLIR context with this dialect, the torch dialect and all upstream dialects."""
    ctx = ir.Context()
    with ctx, _loading:
        Bascule.load()
        torch_dialect.register_dialect(ctx)
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
