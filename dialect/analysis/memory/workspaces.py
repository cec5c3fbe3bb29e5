"""Memory that calls of PyTorch's operators on a CPU take while they run, beyond their results.

Measured with `python -m benchmarks.workspaces` on an AMD EPYC, 2 threads, torch 2.13.0+cpu, November 2026: oneDNN copies what a
convolution takes and makes to its own layout, in turns, and packs blocks of a linear layer's weight for each thread; a sort has the indices of
a row in memory. Nothing is counted of operators that are not here.
"""

from collections.abc import Callable, Sequence
from math import prod

from ...ir.functions import ARGUMENTS, EXTERN
from ...ir.shapes import constant, row_major
from ...mlir import ir
from .buffers import memref_type, strides

WINDOW = 14  # of a convolution, on a side, for whose gradients oneDNN has kernels
SCRATCH = 64 << 10  # bytes a thread, of a convolution
COLUMNS = 64  # of a linear layer's weight, transposed, f32, that a thread packs at a time
INNER = 512  # rows of it, of twice as many up to twice that, of more
ALIASED = 512  # columns from which on powers of two are packed
FEW = 12 << 10  # bytes of a convolution whose operands need no copy, or of a linear layer beside what is packed

Sizes = Callable[[ir.Value], Sequence[ir.AffineExpr]]


def workspace(
    call: ir.Operation, function: ir.Operation, bytes_of: Callable[[ir.Value], int], sizes: Sizes, threads: int
) -> int:
    """Bytes that `call`, of the ATen function `function`, takes at most while it runs, beyond its results: of tensors or of memrefs."""
    tensors = ir.RankedTensorType | ir.MemRefType
    made = sum(bytes_of(result) for result in call.results if isinstance(result.type, tensors))
    match function.attributes[EXTERN].value:
        case "aten.convolution.default":
            x, weight = _tensors(call, function, (0, 1))
            return _convolution(x, weight, made, bytes_of, sizes)
        case "aten.convolution_backward.default":
            given, x, weight = _tensors(call, function, (0, 1, 2))
            backward = _convolution_backward(bytes_of(given), x, bytes_of(weight), made, bytes_of, sizes)
            return max(backward + SCRATCH * threads, threads * _unfolded(given, weight, bytes_of, sizes))
        case "mkldnn._linear_pointwise.default":
            x, weight = call.operands[0], call.operands[1]
            copied = 0 if _strides(x) == row_major(sizes(x)) else bytes_of(x)
            return copied + FEW + threads * _packed(weight, sizes)
        case "aten._scaled_dot_product_flash_attention_for_cpu_backward.default":
            return 2 * bytes_of(call.operands[0])
        case "aten.sort.default":
            return threads * _row_of_indices(call.operands[0], function, 1, sizes)
        case "aten.sort.stable":
            return threads * _row_of_indices(call.operands[0], function, 2, sizes)
    return 0


def _strides(value: ir.Value) -> list[ir.AffineExpr]:
    return strides(value.type if isinstance(value.type, ir.MemRefType) else memref_type(value.type))


def _packed(weight: ir.Value, sizes: Sizes) -> int:
    """Bytes of the block of a linear layer's weight that a thread packs: of one whose memory runs along the columns none, but where their number
    would have its rows at the same places of a cache."""
    columns, inner = (constant(size) for size in sizes(weight))
    if inner is None:
        return 0
    along = constant(_strides(weight)[0]) == 1
    if along and (columns is None or columns < ALIASED or columns & (columns - 1)):
        return 0
    block = inner if inner <= INNER else INNER if inner <= 2 * INNER else 2 * INNER
    return block * COLUMNS * 4


def _row_of_indices(x: ir.Value, function: ir.Operation, position: int, sizes: Sizes) -> int:
    """Bytes of the indices of a row of `x` along the dim that an operator takes at `position`; along the last one where it takes none."""
    arguments = list(function.attributes[ARGUMENTS])
    given = arguments[position] if position < len(arguments) else None
    dim = given.value if isinstance(given, ir.IntegerAttr) else -1
    return 8 * (constant(sizes(x)[dim]) or 0) if x.type.rank else 0


def _tensors(call: ir.Operation, function: ir.Operation, positions: tuple[int, ...]) -> list[ir.Value]:
    """The operands at `positions` of the operator's arguments."""
    arguments = list(function.attributes[ARGUMENTS])
    return [call.operands[ir.IntegerAttr(arguments[position].index).value] for position in positions]


def _is_channels_last(value: ir.Value) -> bool:
    """Whether an image lies as oneDNN takes it; a row of channels does not."""
    return value.type.rank > 3 and constant(_strides(value)[1]) == 1


def _convolution(x: ir.Value, weight: ir.Value, made: int, bytes_of: Callable[[ir.Value], int], sizes: Sizes) -> int:
    if _is_channels_last(x):
        return bytes_of(weight) + FEW
    return _copied(x, bytes_of, sizes) + max(bytes_of(x) + bytes_of(weight), made)


def _convolution_backward(
    given: int, x: ir.Value, weight: int, made: int, bytes_of: Callable[[ir.Value], int], sizes: Sizes
) -> int:
    size = bytes_of(x)
    first = max(given + weight + size, 3 * size)  # the gradient of x, in its own layout and as it is returned
    then = size + given + size + weight  # that of the weight, beside it
    return max(0, 2 * _copied(x, bytes_of, sizes) + max(first, then) - made)


def _unfolded(given: ir.Value, weight: ir.Value, bytes_of: Callable[[ir.Value], int], sizes: Sizes) -> int:
    """Bytes a thread of the gradient of a weight with a window wider than `WINDOW`: sums like it, the windows of an image; 0 of others."""
    known = [constant(size) for size in (*sizes(weight)[1:], *sizes(given)[2:])]
    found = [size for size in known if size is not None]
    if len(found) < len(known) or all(side <= WINDOW for side in found[1 : weight.type.rank - 1]):
        return 0
    return 4 * bytes_of(weight) + 4 * prod(found) + bytes_of(given)


def _copied(x: ir.Value, bytes_of: Callable[[ir.Value], int], sizes: Sizes) -> int:
    """Bytes of the copy that is made first of what is neither row-major nor channels-last."""
    return 0 if _is_channels_last(x) or _strides(x) == row_major(sizes(x)) else bytes_of(x)
