"""Memory that calls of PyTorch's operators on a CPU take while they run, beyond their results.

Measured with `python -m benchmarks.workspaces` on an AMD EPYC, 2 threads, torch 2.13.0+cpu, November 2026: oneDNN copies what a
convolution takes and makes to its own layout, in turns, and packs blocks of a linear layer's weight for each thread. Nothing is counted of
operators that are not here.
"""

from collections.abc import Callable

from ...ir.functions import ARGUMENTS, EXTERN
from ...ir.shapes import constant, row_major
from ...mlir import ir
from .buffers import Sizes, strides

SCRATCH = 64 << 10  # bytes a thread, of a convolution
COLUMNS = 64  # of a linear layer's weight, f32, that a thread packs at a time
FEW = 12 << 10  # bytes of a convolution whose operands need no copy


def workspace(
    call: ir.Operation, function: ir.Operation, bytes_of: Callable[[ir.Value], int], sizes: Sizes, threads: int
) -> int:
    """Bytes that `call`, of the ATen function `function`, takes at most while it runs, beyond its results."""
    made = sum(bytes_of(result) for result in call.results if isinstance(result.type, ir.MemRefType))
    match function.attributes[EXTERN].value:
        case "aten.convolution.default":
            x, weight = _tensors(call, function, (0, 1))
            return _convolution(x, weight, made, bytes_of, sizes)
        case "aten.convolution_backward.default":
            given, x, weight = _tensors(call, function, (0, 1, 2))
            backward = _convolution_backward(bytes_of(given), x, bytes_of(weight), made, bytes_of, sizes)
            return backward + SCRATCH * threads
        case "mkldnn._linear_pointwise.default":
            x = call.operands[0]
            inner = constant(sizes.of(x)[1]) or 0
            copied = 0 if strides(x.type) == row_major(sizes.of(x)) else bytes_of(x)
            return copied + threads * inner * COLUMNS * 4
        case "aten._scaled_dot_product_flash_attention_for_cpu_backward.default":
            return 2 * bytes_of(call.operands[0])
    return 0


def _tensors(call: ir.Operation, function: ir.Operation, positions: tuple[int, ...]) -> list[ir.Value]:
    """The operands at `positions` of the operator's arguments."""
    arguments = list(function.attributes[ARGUMENTS])
    return [call.operands[ir.IntegerAttr(arguments[position].index).value] for position in positions]


def _is_channels_last(value: ir.Value) -> bool:
    """Whether an image lies as oneDNN takes it; a row of channels does not."""
    return value.type.rank > 3 and constant(strides(value.type)[1]) == 1


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


def _copied(x: ir.Value, bytes_of: Callable[[ir.Value], int], sizes: Sizes) -> int:
    """Bytes of the copy that is made first of what is neither row-major nor channels-last."""
    return 0 if _is_channels_last(x) or strides(x.type) == row_major(sizes.of(x)) else bytes_of(x)
