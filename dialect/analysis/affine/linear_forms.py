"""Linear forms: the step of an affine expression along each of its dims, where it is linear in it."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from ...ir.shapes import constant
from ...mlir import ir

Step: TypeAlias = int | ir.AffineExpr  # a number, or an expression of symbols that is none


Index = TypeVar("Index", bound=Hashable)


@dataclass(eq=False)
class Form(Generic[Index]):
    """How a number depends on indices: the steps along those that it is linear in, those that it also depends on otherwise. It is `start`, what
    it has for each step, and each of `terms`, quotients and remainders of indices, times a step."""

    steps: dict[Index, Step]
    opaque: set[Index]
    start: Step = 0
    terms: list[tuple[ir.AffineExpr, Step]] = field(default_factory=list)

    def varies(self, index: Index) -> bool:
        return index in self.steps or index in self.opaque

    def adjacent(self, index: Index) -> bool:
        """Whether neighbours along `index` are 1 apart."""
        return index not in self.opaque and self.steps.get(index) == 1

    def flat(self, outer: Index, inner: Index, extent: Step) -> bool:
        """Whether `outer * extent + inner` is all that is needed of the two; `extent` is the size of `inner`."""
        if outer in self.opaque or inner in self.opaque:
            return False
        return product(self.steps.get(inner, 0), extent) == self.steps.get(outer, 0)


def linear(e: ir.AffineExpr) -> Form[int]:
    """How `e` depends on its dims: what terms are linear in, and what is under a quotient or a remainder. A dim may be among both."""
    form = Form[int]({}, set())
    _add(e, 1, form)
    return form


def _add(e: ir.AffineExpr, factor: Step, form: Form[int]) -> None:
    """Adds `e * factor` to `form`."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineDimExpr):
        known = form.steps.get(e.position)
        form.steps[e.position] = factor if known is None else simplest(known + factor)
    elif isinstance(e, ir.AffineAddExpr):
        _add(e.lhs, factor, form)
        _add(e.rhs, factor, form)
    elif isinstance(e, ir.AffineMulExpr) and not dims_of(e.rhs):
        _add(e.lhs, product(simplest(e.rhs), factor), form)
    elif dims := dims_of(e):
        form.opaque.update(dims)
        form.terms.append((e, factor))
    else:
        form.start = simplest(product(simplest(e), factor) + form.start)


def product(step: Step, by: Step) -> Step:
    return simplest(step * by)


def simplest(step: Step) -> Step:
    """`step`, as a number where it is one."""
    if isinstance(step, int):
        return step
    known = constant(step)
    return step.maybe_downcast() if known is None else known


def dims_of(e: ir.AffineExpr) -> set[int]:
    """The numbers of the dims in `e`."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineDimExpr):
        return {e.position}
    return dims_of(e.lhs) | dims_of(e.rhs) if isinstance(e, ir.AffineBinaryExpr) else set()
