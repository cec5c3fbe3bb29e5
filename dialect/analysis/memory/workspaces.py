"""Memory that calls of PyTorch's operators on a CPU take while they run, beyond their results.

Measured with `python -m benchmarks.workspaces` on an AMD EPYC with AVX-512, 2 threads, torch 2.13.0+cpu, November 2026: oneDNN copies what a
convolution takes and makes to its own layout, in turns, and packs blocks of a linear layer's weight for each thread. Operators that are not
here took less than 64 KiB, or are not known.
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
    match function.attributes[EXTERN].value:
        case "aten.convolution.default":
            return _convolution(call, function, bytes_of, threads)
        case "aten.convolution_backward.default":
            return _convolution_backward(call, function, bytes_of, threads)
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
    return value.type.rank > 2 and constant(strides(value.type)[1]) == 1


def _convolution(call: ir.Operation, function: ir.Operation, bytes_of: Callable[[ir.Value], int], threads: int) -> int:
    x, weight = _tensors(call, function, (0, 1))
    if _is_channels_last(x):
        return bytes_of(weight) + FEW
    made = sum(map(bytes_of, _made(call)))
    return max(bytes_of(x) + bytes_of(weight), made)


def _convolution_backward(
    call: ir.Operation, function: ir.Operation, bytes_of: Callable[[ir.Value], int], threads: int
) -> int:
    given, x, weight = map(bytes_of, _tensors(call, function, (0, 1, 2)))
    made = sum(map(bytes_of, _made(call)))
    scratch = SCRATCH * threads
    first = max(given + weight + x, 3 * x)  # the gradient of x, in its own layout and as it is returned
    then = x + given + x + weight  # that of the weight, beside it
    return max(0, max(first, then) + scratch - made)


def _made(call: ir.Operation) -> list[ir.Value]:
    return [result for result in call.results if isinstance(result.type, ir.MemRefType)]
