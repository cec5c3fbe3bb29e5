"""Calls of convolutions and of their gradients: what is convolved, by which windows."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.attributes import OperandAttr
from ...ir.functions import ARGUMENTS, EXTERN, RESULTS
from ...ir.shapes import constant, shape_of
from ...mlir import ir

# Operator -> positions of what is convolved, the weight, the bias (or its sizes), the gradient of the result, the stride, which padding,
# dilation, whether it is transposed, output padding and groups follow.
_FORMS: dict[str, tuple[int, int, int, int | None, int]] = {
    "aten.convolution.default": (0, 1, 2, None, 3),
    "aten.convolution_backward.default": (1, 2, 3, 0, 4),
}


@dataclass(frozen=True)
class Convolution:
    """The call `op` of a convolution of `x`, (N, C, *places), by `weight`, (C_out, C / groups, *window); or of its gradients, where `gradient`
    is that of the result. `steps`: stride, padding and dilation of each dim of the window. `results`: which gradients are asked for, of x 0,
    of the weight 1, of a bias 2."""

    op: ir.Operation
    x: ir.Value
    weight: ir.Value
    gradient: ir.Value | None
    biased: bool
    transposed: bool
    groups: int
    steps: tuple[tuple[int, int, int], ...]
    results: tuple[int, ...]

    @staticmethod
    def of(op: ir.Operation, function: ir.Operation) -> "Convolution | None":
        """The convolution that `op`, a call of the ATen function `function`, computes; None for another operator, for what is not an image with
        a batch, has steps known only at run time or such as PyTorch refuses, and for results of other ranks than the operator gives."""
        form = _FORMS.get(function.attributes[EXTERN].value)
        if form is None:
            return None
        arguments = list(function.attributes[ARGUMENTS])
        x, weight, bias, gradient, first = form
        tensors = [None if i is None else _operand(op, arguments[i]) for i in (x, weight, gradient)]
        stride, padding, dilation = (_numbers(arguments[first + i]) for i in range(3))
        transposed, groups = arguments[first + 3].value, _numbers(ir.ArrayAttr.get([arguments[first + 5]]))
        if tensors[0] is None or tensors[1] is None or stride is None or padding is None or not groups:
            return None
        rank = len(shape_of(tensors[1])) - 2
        if dilation is None or len(shape_of(tensors[0])) != rank + 2 or rank < 1:
            return None
        steps = tuple(zip(*(values * rank if len(values) == 1 else values for values in (stride, padding, dilation))))
        if any(stride < 1 or padding < 0 or dilation < 1 for stride, padding, dilation in steps):
            return None
        biased = gradient is None and not isinstance(arguments[bias], ir.UnitAttr)
        results = tuple(function.attributes[RESULTS])
        ranks = [rank + 2 if number < 2 else 1 for number in results]
        if [len(shape_of(result)) for result in op.results] != ranks or (
            tensors[2] is not None and len(shape_of(tensors[2])) != rank + 2
        ):
            return None
        return Convolution(op, tensors[0], tensors[1], tensors[2], biased, transposed, groups[0], steps, results)

    @property
    def window(self) -> list[int]:
        """The sizes of the window; of a size known at run time 0."""
        return [constant(size) or 0 for size in shape_of(self.weight)[2:]]

    @property
    def depthwise(self) -> bool:
        """Whether each channel is convolved by a window of its own."""
        (channels, each), image = shape_of(self.weight)[:2], shape_of(self.x)[1]
        known = constant(channels) == constant(image) == self.groups
        return known and constant(each) == 1 and not self.transposed


def _operand(op: ir.Operation, argument: ir.Attribute) -> ir.Value | None:
    return op.operands[ir.IntegerAttr(argument.index).value] if isinstance(argument, OperandAttr) else None


def _numbers(argument: ir.Attribute) -> list[int] | None:
    """A list of integers; None where some are known only at run time."""
    if not isinstance(argument, ir.ArrayAttr) or not all(isinstance(entry, ir.IntegerAttr) for entry in argument):
        return None
    return [entry.value for entry in argument]


def static(values: Sequence[ir.Value]) -> bool:
    """Whether the sizes of tensors are known."""
    return all(constant(size) is not None for value in values for size in shape_of(value))
