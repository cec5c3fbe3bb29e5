"""Loops of many steps in stretches: each sums from zero, and then goes to the sum of those before it.

So a sum of n elements is off by about the cube root of n roundings, not by n of them; see Higham, "The Accuracy of Floating Point
Summation" (1993).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bascule.dialect.mlir import ir

from .builder import Builder

Values: TypeAlias = list[ir.Value]

STRETCH = 64  # steps of a stretch, and stretches of a longer one
LONG = 2 * STRETCH  # steps that are worth a loop around


@dataclass(frozen=True)
class Stretches:
    """`fresh(values)`: what a stretch starts from where `values` are carried; `close(before, after)`: what is carried on after it."""

    fresh: Callable[[Values], Values]
    close: Callable[[Values, Values], Values]

    def loop(
        self,
        b: Builder,
        bounds: tuple[ir.Value, ir.Value],
        step: int,
        trips: int | None,
        carried: Values,
        body: Callable[[ir.Value, Values], Sequence[ir.Value]],
        rolled: bool = False,
    ) -> Values:
        """`b.loop` from one bound to the other. `trips`: its steps, at most, where that is known."""

        def nest(lower: ir.Value, upper: ir.Value, span: int, values: Values) -> Values:
            stride = b.constant(b.index, span * step)
            if span == 1:
                return b.loop(lower, upper, stride, values, body, rolled=rolled)

            def stretch(iv: ir.Value, values: Values) -> Values:
                end = b.value("arith.addi", b.index, [iv, stride])
                end = b.value("arith.minsi", b.index, [end, upper])
                return self.close(values, nest(iv, end, span // STRETCH, self.fresh(values)))

            return b.loop(lower, upper, stride, values, stretch, rolled=rolled)

        if trips is None or trips > LONG * STRETCH:
            return nest(*bounds, STRETCH * STRETCH, carried)
        return nest(*bounds, STRETCH if trips > LONG else 1, carried)
