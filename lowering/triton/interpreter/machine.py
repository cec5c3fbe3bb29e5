"""The programs of a grid in step: every value has a leading dimension, the program's number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.interpreter.scalars import SCALARS
from bascule.dialect.interpreter.values import dtype_of
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir

from ..compilation import TritonKernel
from .memory import Either, Memory, Pointer
from .operations import RULES, scalar

Value = torch.Tensor | Pointer | Either


def run_kernel(kernel: TritonKernel, arguments: Sequence[int | Memory]) -> None:
    """Runs all programs of `kernel`; `arguments` are its parameters: a number for each symbol, then the buffers, which it writes.

    Raises `InterpreterError`, with the source location, for an access out of bounds, a read of what nothing wrote, two programs at one
    place (unless both add atomically), and an operation the interpreter lacks.
    """
    ctx = context()
    ctx.allow_unregistered_dialects = True
    symbols = [value for value in arguments if isinstance(value, int)]
    programs = int(evaluate(kernel.grid.results[0], (), symbols))
    with ctx:
        module = ir.Module.parse(kernel.ttir)
        function = next(iter(module.body.operations)).operation
        machine = Machine(programs, torch.ones(programs, dtype=torch.bool))
        block = function.regions[0].blocks[0]
        for argument, value in zip(block.arguments, arguments, strict=True):
            if isinstance(value, Memory):
                value.begin()
                machine.env[argument] = Pointer(value, torch.zeros(programs, dtype=torch.int64))
            else:
                machine.env[argument] = torch.full([programs], value, dtype=dtype_of(argument.type))
        if programs:
            machine.block(block)


@dataclass
class Machine:
    """`active`: the programs that run what is at hand."""

    programs: int
    active: torch.Tensor

    def __post_init__(self) -> None:
        self.env: dict[ir.Value, Any] = {}

    def block(self, block: ir.Block, arguments: Sequence[Value] = ()) -> list[Value]:
        """Runs a block; what its terminator takes."""
        self.env.update(zip(block.arguments, arguments))
        for view in block.operations:
            op = view.operation
            operands = [self.env[value] for value in op.operands]
            if op.name in ("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return"):
                return operands
            self.env.update(zip(op.results, self._op(op, operands)))
        return []

    def _op(self, op: ir.Operation, operands: list[Any]) -> Sequence[Value]:
        if op.name in RULES:
            return RULES[op.name](self, op, *operands)
        if op.name in SCALARS or op.name.startswith("arith."):
            return scalar(op, op.name, operands)
        raise error(op, "is not known to the interpreter")

    def mask(self, shape: Sequence[int], mask: torch.Tensor | None) -> torch.Tensor:
        """The lanes of an access of `shape` in force."""
        active = self.active.reshape([-1] + [1] * (len(shape) - 1)).expand(shape)
        return active if mask is None else active & mask
