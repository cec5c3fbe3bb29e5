"""Which dimensions a reduction runs over, and where an element of the input stands among outputs and reduced elements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce as fold

import torch
from bascule.dialect.ir import builders, shapes
from bascule.dialect.ir.loop_ops import POSITION_KINDS
from bascule.dialect.mlir import ir

from ...conversion.registry import LeftToAten
from .operands import index_constant, read, temporary
from .scalars import Scalar, scalar_type

Indices = Sequence[ir.Value]


def wrap_dim(dim: int, rank: int) -> int:
    """A dimension counted from the front; a scalar has, for this purpose, one. One that there is not is left to ATen, which refuses it."""
    count = max(rank, 1)
    if not -count <= dim < count:
        raise LeftToAten(f"there is no dimension {dim} of {rank}")
    return dim % count


@dataclass(frozen=True)
class Axes:
    """The dimensions `dims` of `x` are reduced; the others stay, in order. `keepdim`: reduced ones stay with size 1."""

    x: ir.Value
    dims: tuple[int, ...]
    keepdim: bool

    @staticmethod
    def of(
        x: ir.Value, dims: int | Sequence[int] | None, keepdim: bool = False, *, empty_is_all: bool = True
    ) -> "Axes":
        """`dims` as ATen gives them: a number, a list, None for all; an empty list is all unless said otherwise."""
        rank = x.type.rank
        if dims is None or (empty_is_all and isinstance(dims, list | tuple) and not dims):
            dims = range(rank)
        dims = [dims] if isinstance(dims, int) else dims
        return Axes(x, tuple(sorted({wrap_dim(dim, rank) for dim in dims})) if rank else (), keepdim)

    @property
    def sizes(self) -> list[ir.AffineExpr]:
        """The sizes that are reduced."""
        whole = shapes.shape_of(self.x)
        return [whole[dim] for dim in self.dims]

    @property
    def count(self) -> ir.AffineExpr:
        """How many elements go into one result."""
        return fold(lambda a, b: a * b, self.sizes, shapes.expr(1))

    @property
    def kept_sizes(self) -> list[ir.AffineExpr]:
        """The sizes of a result with `keepdim`."""
        return [shapes.expr(1) if i in self.dims else size for i, size in enumerate(shapes.shape_of(self.x))]

    def place(self, at: Indices, inner: Indices) -> list[ir.Value]:
        """The index into the input of element `inner` of the reduction at result index `at`."""
        outer, reduced = iter(at), iter(inner)
        index = []
        for dim in range(self.x.type.rank):
            if dim in self.dims:
                index.append(next(reduced))
                if self.keepdim:
                    next(outer)
            else:
                index.append(next(outer))
        return index

    def reduce(
        self,
        kind: str,
        at: Indices,
        emit: Callable[[Scalar], Scalar],
        dtype: torch.dtype,
        inside: torch.dtype,
        *,
        mark: str | None = None,
    ) -> list[Scalar]:
        """`bascule.reduce` of `kind` at result index `at`. `emit` takes an element in `inside` (`mark`: what for) and gives one in `dtype`."""
        return self.fold(kind, at, lambda index: emit(read(self.x, index).to(inside, mark=mark)), dtype)

    def fold(self, kind: str, at: Indices, element: Callable[[Indices], Scalar], dtype: torch.dtype) -> list[Scalar]:
        """`bascule.reduce` of `kind` at result index `at`, of what `element` gives, in `dtype`, at each index into `x`."""
        if not self.dims:  # one element
            value = element(self.place(at, []))
            if kind == "welford":
                return [value, value - value, value.like(1)]  # NaN for what is not finite
            return [Scalar.constant(0, torch.int64)] if kind in POSITION_KINDS else [value]
        values = builders.reduce(
            kind, self.sizes, scalar_type(dtype), lambda inner: element(self.place(at, inner)).value
        )
        return [Scalar(value, torch.int64 if kind in POSITION_KINDS else dtype) for value in values]

    def kept(self, dtype: torch.dtype, body: Callable[[Indices], Scalar]) -> ir.Value:
        """An intermediate over the reduction's points, with `keepdim` sizes, so that it broadcasts against `x`."""
        return temporary(self.kept_sizes, dtype, body)

    def kept_index(self, at: Indices) -> list[ir.Value]:
        """Index into `x` -> index into what `kept` makes."""
        return [index_constant(0) if i in self.dims else index for i, index in enumerate(at)]
