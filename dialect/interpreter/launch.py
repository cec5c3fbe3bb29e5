"""A kernel function of the program stage run on buffers given by address, on whatever device they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..analysis.memory.buffers import Sizes, strides
from ..ir.builders import symbols_of
from ..ir.functions import functions
from ..ir.scalar_types import scalar_type_of
from ..ir.shapes import expr
from ..mlir import ir
from .addresses import tensor_at
from .errors import error
from .frame import Frame, Scope
from .maps import evaluate
from .values import Buffer


@dataclass(frozen=True)
class Parameter:
    """A buffer that a kernel takes: its sizes and strides are expressions of the symbols."""

    dtype: torch.dtype
    sizes: Sequence[ir.AffineExpr]
    strides: Sequence[ir.AffineExpr]

    def at(self, address: int, symbols: Sequence[int], device: torch.device) -> torch.Tensor:
        """The tensor on `device` whose first element lies at `address`; zeros at 0, of a buffer that is `bascule.nullable`."""
        size, stride = ([int(evaluate(e, (), symbols)) for e in exprs] for exprs in (self.sizes, self.strides))
        if not address:
            return torch.zeros((), dtype=self.dtype, device=device).expand(size)
        return tensor_at(address, self.dtype, size, stride, device)


def parameters_of(function: ir.Operation, table: ir.SymbolTable) -> list[Parameter]:
    """The buffers of a kernel function of the program stage, in order. To be called, like `Parameter.at`, in its context."""
    sizes = Sizes(function, table)
    buffers = list(function.regions[0].blocks[0].arguments)[len(symbols_of(function)) :]
    return [
        Parameter(
            getattr(torch, scalar_type_of(b.type.element_type)),
            [expr(e) for e in sizes.of(b)],
            [expr(e) for e in strides(b.type)],
        )
        for b in buffers
    ]


class ReferenceKernel:
    """The kernel function `name` of `module`, which has to stay as it is. A call runs it by torch's operators: clear rather than fast.

    Unlike `interpret` it does not look for points that get in each other's way, and temporaries are on `device`.
    """

    def __init__(self, module: ir.Module, name: str, device: torch.device):
        self.module, self.device = module, device
        with module.context:
            (self.function,) = (f for f in functions(module) if f.attributes["sym_name"].value == name)
            self.parameters = parameters_of(self.function, ir.SymbolTable(module.operation))

    def __call__(self, symbols: Sequence[int], addresses: Sequence[int]) -> None:
        """One launch. Raises `InterpreterError` where the kernel divides an integer by zero."""
        with self.module.context, torch.no_grad(), self.device:
            buffers = [p.at(a, symbols, self.device) for p, a in zip(self.parameters, addresses, strict=True)]
            frame = Frame(_no_calls, list(symbols), {}, [], watched=False)
            arguments = [*map(torch.tensor, symbols), *(Buffer(tensor, 0) for tensor in buffers)]
            frame.block(self.function.regions[0].blocks[0], arguments, Scope())


def _no_calls(op: ir.Operation, operands: list) -> list:
    raise error(op, "stands in a kernel, which calls no function")
