"""The programs of a grid in step: every value has a leading dimension, the program's number."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.interpreter.scalars import SCALARS
from bascule.dialect.mlir import ir

from .memory import Either, Pointer
from .scalars import scalar

Value = torch.Tensor | Pointer | Either
Rule = Callable[..., Sequence[Any]]  # of the machine, the operation, and its operands: its results


@dataclass
class Machine:
    """`programs`: how many there are here, from number `first` on; `active`: those that run what is at hand; `rules`: by an operation's name."""

    first: int
    programs: int
    active: torch.Tensor
    rules: Mapping[str, Rule]

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
        if op.name in self.rules:
            return self.rules[op.name](self, op, *operands)
        if op.name in SCALARS or op.name.startswith("arith."):
            return scalar(op, op.name, operands)
        raise error(op, "is not known to the interpreter")

    def mask(self, shape: Sequence[int], mask: torch.Tensor | None) -> torch.Tensor:
        """The lanes of an access of `shape` in force."""
        active = self.active.reshape([-1] + [1] * (len(shape) - 1)).expand(shape)
        return active if mask is None else active & mask
