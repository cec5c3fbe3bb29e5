"""Calls of ATen operators as Python text: arguments by the operator's schema."""

import math
from collections.abc import Sequence

import torch
from bascule.dialect.errors import UserError
from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.functions import ARGUMENTS, EXTERN, MUTATES, OUT, parameters_of
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.scalar_types import scalar_type_name
from bascule.dialect.mlir import ir

from bascule.compat.operators.dropout_seeds import READING
from bascule.compat.operators.schemas import Argument, OpOverload

from .expressions import python_of

# c10::MemoryFormat and c10::Layout by number
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_LAYOUTS = ("strided",)
# Operators that torch has as functions of Python's own, which cost half of a call through `torch.ops`.
_FUNCTIONS = {f"aten.{name}.out": f"torch.{name}" for name in ("mm", "bmm", "addmm", "baddbmm")}
_FUNCTIONS["aten.convolution.default"] = "torch.convolution"
_FUNCTIONS["bascule.check_index.default"] = "check_index"
_FUNCTIONS["bascule_host.wait_tensor.default"] = "wait_copied"
IMPORTED = ("check_index", "wait_copied")  # of `bascule.runtime.module_api`
# word in a parameter's schema type -> how the number that stands for such a constant reads
_NUMBERED = {
    "ScalarType": lambda number: f"torch.{scalar_type_name(number)}",
    "MemoryFormat": lambda number: f"torch.{_MEMORY_FORMATS[number]}",
    "Layout": lambda number: f"torch.{_LAYOUTS[number]}",
}


class AtenFunction:
    """An ATen function: the operator that is called for it, and its schema. `device`: text of where it makes new tensors, if not on the CPU."""

    def __init__(self, function: ir.Operation, device: str | None = None):
        attributes = function.attributes
        self.device = device
        self.writes_out = OUT in attributes and not len(attributes["function_type"].value.results)
        self.operator = attributes[OUT if self.writes_out else EXTERN].value
        self.arguments = list(attributes[ARGUMENTS])
        self.mutates = MUTATES in attributes
        overload = _overload(self.operator, function)
        self.schema = overload._schema
        # ATen's own operators may leave a result that only their backward is given without elements, whatever they told the tracer
        # (`_embedding_bag` of bf16): not those of which the program can assert how many there are.
        self.may_leave_out = overload.namespace == "aten" and torch.Tag.dynamic_output_shape not in overload.tags

    @property
    def path(self) -> str:
        """`torch.ops.aten.sort.stable`, `torch.mm`; wrapped where the operator does not return its results one by one."""
        path = _FUNCTIONS.get(self.operator, f"torch.ops.{self.operator}")
        return f"{self.wrapper}({path})" if self.wrapper else path

    @property
    def wrapper(self) -> str | None:
        """The name in `bascule.runtime.module_api` of the function that returns the results one by one: of an operator that writes to
        arguments, or that returns lists beside something else. Or that puts seeds where the operator reads them."""
        returns = self.schema.returns
        if self.operator in READING:
            return "seeds_where_read"
        if self.mutates:
            return "functional"
        return "flat" if len(returns) > 1 and any(isinstance(x.type, torch.ListType) for x in returns) else None

    def call(self, name: str, tensors: Sequence[str], symbols: Sequence[str]) -> str:
        """The text of a call of what is bound to `name`. `tensors`: the operands, destinations last."""
        parameters = parameters_of(self.schema, self.mutates)
        parts = []
        for parameter, attribute in zip(parameters, self.arguments):
            if self.device is not None and self._places(parameter, attribute, tensors):
                parts.append(f"{parameter.name}={self.device}")
                continue
            if parameter.kwarg_only and isinstance(attribute, ir.UnitAttr) and _is_none_anyway(parameter):
                continue
            text = _argument(attribute, str(parameter.real_type), tensors, symbols)
            parts.append(f"{parameter.name}={text}" if parameter.kwarg_only else text)
        if self.writes_out:
            outs = [p.name for p in self.schema.arguments if p.is_out]
            parts += [f"{out}={tensor}" for out, tensor in zip(outs, tensors[len(tensors) - len(outs) :])]
        return f"{name}({', '.join(parts)})"

    @staticmethod
    def _places(parameter: Argument, attribute: ir.Attribute, tensors: Sequence[str]) -> bool:
        """Whether a device is given, or None where there is no tensor to take it from."""
        asked = parameter.kwarg_only and "Device" in str(parameter.real_type)
        return asked and (not isinstance(attribute, ir.UnitAttr) or not tensors)

    @property
    def outs(self) -> int:
        """How many destinations a call takes."""
        return sum(p.is_out for p in self.schema.arguments)

    @property
    def returns_list(self) -> bool:
        """Whether the operator returns one list of tensors."""
        returns = self.schema.returns
        return len(returns) == 1 and isinstance(returns[0].type, torch.ListType)


def _is_none_anyway(parameter: Argument) -> bool:
    """Whether None need not be given. (`default_value` is None too where there is no default.)"""
    return parameter.has_default_value() and parameter.default_value is None


def _overload(name: str, function: ir.Operation) -> OpOverload:
    try:
        namespace, packet, overload = name.split(".")
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except (AttributeError, ValueError):
        raise UserError(f"torch has no operator '{name}'", location=source_of(function.location)) from None


def _argument(attribute: ir.Attribute, type_: str, tensors: Sequence[str], symbols: Sequence[str]) -> str:
    match attribute:
        case OperandAttr():
            return tensors[ir.IntegerAttr(attribute.index).value]
        case ir.UnitAttr():
            return "None"
        case ir.ArrayAttr():
            return f"[{', '.join(_argument(part, type_, tensors, symbols) for part in attribute)}]"
        case ir.AffineMapAttr():
            return python_of(attribute.value.results[0], symbols)
        case ir.DenseF64ArrayAttr():
            real, imaginary = attribute
            return f"complex({number_text(real)}, {number_text(imaginary)})"
    value = attribute.value
    if isinstance(value, str):
        return f"torch.device({value!r})" if "Device" in type_ else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        for word, spelled in _NUMBERED.items():
            if word in type_:
                return spelled(value)
    return number_text(value)


def number_text(value: bool | int | float) -> str:
    """A number as Python reads it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
