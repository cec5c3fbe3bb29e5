"""Requirements of rules on arguments that neither a meta function nor a decomposition has looked at.

A call that eager refuses is left to ATen, which refuses it where it stands, with its own exception; so is one of which it is not known.
"""

import math
from collections.abc import Sequence

import torch
from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.shapes import Size, expr, shape_of
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import element_count, same_size
from ...conversion.registry import LeftToAten
from .operands import tensor_dtype
from .scalars import Scalar


def require(holds: bool, what: str) -> None:
    """Leaves the op to ATen where it does not hold; `what` eager wants."""
    if not holds:
        raise LeftToAten(f"eager wants {what}")


def require_sizes(x: ir.Value, sizes: Sequence[Size]) -> None:
    """That `x` has `sizes`."""
    own = shape_of(x)
    require(len(own) == len(sizes) and all(map(same_size, own, sizes)), "a source of the sizes that it goes to")


def require_dtype(x: ir.Value, y: ir.Value) -> None:
    """That `x` is of the dtype of `y`."""
    require(tensor_dtype(x) == tensor_dtype(y), "a source of the dtype that it goes to")


def require_parameters(x: ir.Value, *parameters: ir.Value | None) -> None:
    """That parameters of a normalization are of the dtype of `x`, or all in f32 beside 16 bits."""
    dtype, dtypes = tensor_dtype(x), {tensor_dtype(p) for p in parameters if p is not None}
    wide = dtype in (torch.bfloat16, torch.float16) and dtypes == {torch.float32}
    require(wide or dtypes <= {dtype}, "parameters of the dtype of the input")


def require_factor(factor: int, size: Size) -> None:
    """That a size, if it is a number, is a multiple of `factor`."""
    count = known(expr(size))
    require(count is None or (factor > 0 and count % factor == 0), "a size that the factor divides")


def require_as_many(x: ir.Value, y: ir.Value) -> None:
    """That `x` and `y` have as many elements."""
    require(
        same_size(element_count(shape_of(x)), element_count(shape_of(y))), "a source with an element for each index"
    )


def require_window(kernel: int, stride: int, padding: int, dilation: int) -> None:
    """A window along a dimension has elements, and windows go on."""
    require(
        min(kernel, stride, dilation) > 0 and padding >= 0,
        "windows of one element or more, steps above zero, and no border below",
    )


def require_index(index: ir.Value) -> None:
    require(tensor_dtype(index) in (torch.int64, torch.int32), "indices of 32 or 64 bits")


def require_rows_index(index: ir.Value, *, wide: bool = False) -> None:
    """Indices of rows: a vector, or a scalar for one row; `wide`: no others than int64."""
    require_index(index)
    require(index.type.rank <= 1, "a vector of indices")
    require(not wide or tensor_dtype(index) == torch.int64, "indices of 64 bits")


def require_held(x: object, dtype: torch.dtype) -> None:
    """That `dtype` holds the number `x`, as eager asks where it writes one: infinity is one of floats, and -1 of unsigned ones."""
    if not isinstance(x, int | float) or isinstance(x, bool) or dtype == torch.bool or dtype.is_complex:
        return
    if dtype.is_floating_point:
        held = not math.isfinite(x) or abs(x) <= torch.finfo(dtype).max
    else:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        held = math.isfinite(x) and (-high if low == 0 and isinstance(x, int) else low) <= x <= high
    require(held, f"a number that {dtype} holds")


def require_divisor(divisor: object, dtype: torch.dtype) -> None:
    """That no integers are divided by the number 0."""
    is_zero = isinstance(divisor, bool | int | float) and divisor == 0
    require(not is_zero or dtype.is_floating_point, "a divisor of integers that is not 0")


def require_place(place: Size, size: Size) -> None:
    """That `place` is in a dimension of `size`, or counts from its end; of what is no number, the tracer knows."""
    count, at = known(expr(size)), known(expr(place))
    require(count is None or at is None or -count <= at < count, "an index that is in range")


def refused_beyond(c: Conversion, x: Scalar, low: float, high: float | None = None) -> Scalar:
    """The floating-point `x`: where assertions are asked for, a kernel refuses one that is not in [`low`, `high`]."""
    if not c.asked.index_asserts:
        return x
    inside = x.maximum(low) if high is None else x.maximum(low).minimum(high)
    inside.value.owner.attributes[CHECKED] = ir.UnitAttr.get()
    return inside


def slice_count(size: Size, start: Size | None, end: Size | None, step: int) -> int | None:
    """How many elements `[start:end:step]` of `size` elements has; None where that is not a number."""
    numbers = [known(expr(x)) for x in (size, 0 if start is None else start, size if end is None else end)]
    if None in numbers:
        return None
    count, first, last = numbers
    return len(range(count)[first:last:step])


def diagonal_count(rows: Size, columns: Size, offset: int) -> int | None:
    """How many elements the diagonal number `offset` has; None where that is not a number."""
    high, wide = known(expr(rows)), known(expr(columns))
    if high is None or wide is None:
        return None
    return max(0, min(high + min(offset, 0), wide - max(offset, 0)))
