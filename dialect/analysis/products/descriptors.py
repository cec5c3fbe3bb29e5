"""Tensor descriptors (CUDA's tensor maps) of a contraction's factors: strided tensors of which the hardware copies boxes to shared memory, with
zeros for what lies beyond a size."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...ir.shapes import Size, constant, expr
from ...mlir import ir
from ..affine.bounds import interval
from ..affine.linear_forms import Form, Step, dims_of, product, simplest
from ..affine.symbol_terms import divisor, terms_of

ALIGNMENT = 16  # bytes: of where it begins, and of all strides but the 1
# Of CUDA's tensor maps: dims, elements along one (places in it have 32 bits, with a sign), bytes from one to the next.
MOST_DIMS, MOST_SIZE, MOST_STRIDE = 5, (1 << 31) - 1, 1 << 40
WIDTHS = (1, 2, 4)  # bytes of an element: those of f32 are rounded to TF32 by the copy


@dataclass(frozen=True)
class Dim:
    """A dim in memory; its size and stride, in elements, sums of products of symbols. `place`: the index along it, of the indices around."""

    place: ir.AffineExpr
    size: Step
    stride: Step


@dataclass(frozen=True)
class TensorDescriptor:
    """The matrix that a factor is read from, one at each point of the batch: they begin `start` elements into the buffer."""

    start: int
    batch: tuple[Dim, ...]
    rows: Dim
    summed: Dim

    @property
    def is_transposed(self) -> bool:
        """Whether memory runs along rows: a box is summed x rows."""
        return self.rows.stride == 1

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Slowest first; the last has a stride of 1."""
        matrix = (self.summed, self.rows) if self.is_transposed else (self.rows, self.summed)
        return (*self.batch, *matrix)


def descriptor_of(
    form: Form[int], runs: Sequence[Sequence[int]], sizes: Mapping[int, Size], width: int
) -> TensorDescriptor | str:
    """The descriptor of what is read at offsets of `form`, of elements of `width` bytes; or why there is none. `runs`: indices that are to be
    one dim each, slowest first, with their `sizes`: of the batch, then the factor's rows, then what is summed. A quotient of the batch, as of
    heads that share one, is a dim too."""
    if width not in WIDTHS:
        return f"its elements have {width} bytes"
    if not isinstance(form.start, int):
        return "it begins anywhere"
    if not form.steps.keys() <= {index for run in runs for index in run}:
        return "its place comes from data, or from rows and columns"
    *batch, rows, summed = runs
    outer = [run for run in batch if any(index in form.steps and _size(index, sizes) != 1 for index in run)]
    found = [_quotient(e, step, [index for run in batch for index in run], sizes) for e, step in form.terms]
    found += [_dim(form, run, sizes) for run in (*outer, rows, summed)]
    dims = [dim for dim in found if dim is not None]
    if len(dims) < len(found):
        return "it is no matrix at each point of the batch: several dims in memory, or quotients"
    *outside, row, along = dims
    return _refusal(form.start, outside, row, along, width) or TensorDescriptor(form.start, tuple(outside), row, along)


def _size(index: int, sizes: Mapping[int, Size]) -> int | None:
    return constant(expr(sizes[index]))


def _dim(form: Form[int], indices: Sequence[int], sizes: Mapping[int, Size]) -> Dim | None:
    """`indices` as one dim, those of size 1 left out; None where they are several in memory, or none."""
    varied = [index for index in indices if _size(index, sizes) != 1]
    extents = [simplest(sizes[index]) for index in varied]
    if not varied or not all(
        form.flat(outer, inner, size) for outer, inner, size in zip(varied, varied[1:], extents[1:])
    ):
        return None
    place, size = expr(0), 1
    for index, extent in zip(varied, extents):
        place, size = expr(place * extent + ir.AffineExpr.get_dim(index)), product(size, extent)
    return Dim(place, size, form.steps.get(varied[-1], 0))


def _quotient(e: ir.AffineExpr, step: Step, batch: Collection[int], sizes: Mapping[int, Size]) -> Dim | None:
    """A quotient or remainder of indices of the batch as a dim; None where it is of others, or has no known bounds."""
    used = dims_of(e)
    extents = {index: _size(index, sizes) for index in used & {*batch}}
    if not isinstance(step, int) or len(extents) < len(used) or None in extents.values():
        return None
    low, high = interval(e, [extents.get(index) or 1 for index in range(max(used) + 1)])
    return Dim(e, int(high) + 1, step) if low >= 0 and high < MOST_SIZE else None


def _refusal(start: int, batch: Sequence[Dim], rows: Dim, summed: Dim, width: int) -> str | None:
    """Why the hardware does not take these dims of elements of `width` bytes; None: it does. Of a stride with symbols it is known what divides
    it."""
    if 1 not in (rows.stride, summed.stride):
        return "memory runs neither along its rows nor along what is summed"
    if width != 2 and summed.stride != 1:
        return f"memory runs along its rows, and tensor cores take {8 * width} bits along what is summed"
    other = summed if rows.stride == 1 else rows
    dims = (*batch, rows, summed)
    if any(terms_of(number) is None for dim in dims for number in (dim.size, dim.stride)):
        return "its sizes or strides are quotients"
    strides = [product(width, dim.stride) for dim in (*batch, other)]
    if start < 0 or width * start % ALIGNMENT:
        return f"it begins at no multiple of {ALIGNMENT} bytes"
    if not all(map(_is_aligned, strides)):
        return f"its strides are {[*map(str, strides)]} bytes, no multiples of {ALIGNMENT}".replace("'", "")
    if len(dims) > MOST_DIMS or max((dim.size for dim in dims if isinstance(dim.size, int)), default=0) > MOST_SIZE:
        return f"it has more than {MOST_DIMS} dims, or one of more than {MOST_SIZE} elements"
    return None


def _is_aligned(stride: Step) -> bool:
    """Whether bytes from one to the next are what the hardware takes."""
    if isinstance(stride, int):
        return 0 < stride < MOST_STRIDE and stride % ALIGNMENT == 0
    return divisor(terms_of(stride) or [(1,)]) % ALIGNMENT == 0
