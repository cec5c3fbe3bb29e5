"""Evaluating a block: the values of one function call, the points a region is evaluated for, and the table of rules."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..interrupts import pass_on
from ..mlir import ir
from .errors import InterpreterError, error
from .maps import evaluate
from .races import Watch

# (frame, op, operands, scope) -> results. Filled by the modules of this package when it is imported.
RULES: dict[str, Callable[["Frame", ir.Operation, list, "Scope"], Sequence[Any] | None]] = {}
TERMINATORS = ("bascule.yield", "scf.yield", "scf.condition", "func.return")


def rule(*names: str):
    """Registers the rule for ops called `names`."""

    def register(function):
        RULES.update({name: function for name in names})
        return function

    return register


@dataclass(frozen=True)
class Scope:
    """The points a region is evaluated for: `axes` sizes, innermost region first, in groups of `ranks` axes.

    `mask` (bool, broadcastable to the axes, or None for all) tells which of them are really run. Inside a kernel, the last
    `loops` axes are those of the kernel and its foreach loops (the rest, of reductions, are one point), the last `domain`
    of these the kernel's own, `loop` is the innermost such loop, and `watch` what checks that points do not interfere.
    """

    axes: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    mask: torch.Tensor | None = None
    loops: int = 0
    domain: int = 0
    start: int = 0  # of the independent loops of one kernel: how many points come before this one's
    loop: ir.Operation | None = None
    watch: Watch | None = None

    def inside(self, sizes: Sequence[int]) -> tuple["Scope", list[torch.Tensor]]:
        """The scope of a region with ranges of `sizes`, and its indices."""
        axes = (*sizes, *self.axes)
        indices = []
        for i, size in enumerate(sizes):
            indices.append(torch.arange(size).reshape([size if k == i else 1 for k in range(i, len(axes))]))
        return replace(self, axes=axes, ranks=(len(sizes), *self.ranks)), indices

    def under(self, condition: torch.Tensor) -> "Scope":
        """This scope where `condition` holds."""
        return replace(self, mask=condition if self.mask is None else self.mask & condition)

    def live(self, condition: torch.Tensor) -> bool:
        """Whether `condition` holds at any point that is run."""
        if 0 in self.axes or not bool(condition.any()):
            return False
        return self.mask is None or bool((condition & self.mask).any())

    def row_major(self) -> list[int]:
        """The order of the axes in which the points follow each other: outer regions first."""
        starts, position = [], 0
        for rank in self.ranks:
            starts.append(range(position, position + rank))
            position += rank
        return [axis for group in reversed(starts) for axis in group]

    def kernel_point(self) -> torch.Tensor:
        """The number of the kernel's point, of each point."""
        return self._number(self.domain) + self.start

    def loop_point(self) -> torch.Tensor:
        """The number of the point of all loops around, of each point."""
        return self._number(self.loops)

    def _number(self, count: int) -> torch.Tensor:
        sizes = self.axes[len(self.axes) - count :]
        return torch.arange(math.prod(sizes)).reshape(sizes)

    def spread(self, value: torch.Tensor) -> torch.Tensor:
        """`value` with all axes, in row-major order of the points, as one axis."""
        return value.expand(self.axes).permute(self.row_major()).reshape(-1)


@dataclass
class Frame:
    """One call of a function: its symbols, and what its values are."""

    call: Callable[[ir.Operation, list], list]  # calls another function of the module, by a func.call op
    symbols: list[int]
    values: dict[ir.Value, Any]
    sizes_of_results: list[list[int]]
    watched: bool = True  # whether launches are checked for points that get in each other's way

    def sizes(self, map_: ir.AffineMap) -> list[int]:
        """A map of the function's symbols."""
        return [int(evaluate(result, (), self.symbols)) for result in map_.results]

    def region(self, region: ir.Region, arguments: Sequence[Any], scope: Scope) -> list:
        """Runs the one block of `region`; returns the operands of its terminator."""
        return self.block(region.blocks[0], arguments, scope)[1]

    def block(self, block: ir.Block, arguments: Sequence[Any], scope: Scope) -> tuple[ir.Operation, list]:
        """Runs `block` with its arguments bound; returns its terminator and that one's operands."""
        for argument, value in zip(block.arguments, arguments):
            self.values[argument] = value
        for view in block.operations:
            op = view.operation
            operands = [self.values[operand] for operand in op.operands]
            if op.name in TERMINATORS:
                return op, operands
            function = RULES.get(op.name)
            if function is None:
                raise error(op, "is not an op of the tensor, kernel or program stage that the interpreter knows")
            try:
                results = function(self, op, operands, scope) or ()
            except InterpreterError as reason:
                if reason.location is not None:
                    raise
                raise error(op, reason.message) from None
            except Exception as reason:  # torch refuses the values: what it raises does not say where
                pass_on(reason)
                raise error(op, f"cannot be run: {type(reason).__name__}: {reason}") from reason
            for result, value in zip(op.results, results):
                self.values[result] = value
        raise error(block.owner.operation, "has a block without a terminator")
