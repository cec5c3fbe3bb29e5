"""Arguments that eager refuses, as an edited graph may have them: PyTorch tells, on meta tensors, where a rule has failed on them.

The importer's graphs were traced, so that rules take for granted what eager takes.
"""

from collections.abc import Sequence
from typing import Any

import torch
from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir.scalar_types import scalar_type_name, scalar_type_of
from bascule.dialect.mlir import ir

from .context import Conversion
from .extern_calls import overload


def refusal_of(c: Conversion, arguments: Sequence[Any]) -> str | None:
    """Eager's refusal of the operator at hand, or what it would give instead of the op's results; None where it takes the arguments, or where
    sizes or a custom operator keep PyTorch from telling."""
    operator = overload(c.operator)
    if operator is None:
        return None
    try:
        given = [_meta(a, str(p.real_type)) for a, p in zip(arguments, operator._schema.arguments)]
    except (KeyError, ValueError):
        return None
    positional = [value for value, p in zip(given, operator._schema.arguments) if not p.kwarg_only]
    named = {p.name: value for value, p in zip(given, operator._schema.arguments) if p.kwarg_only}
    try:
        made = operator(*positional, **named)
    except NotImplementedError:  # of an operator without a function for meta tensors, which tells nothing
        return None
    except Exception as error:  # the refusal: of any type, as eager raises it
        pass_on(error)
        return f"eager refuses it: {str(error).splitlines()[0]}"
    for value, type_ in zip(made if isinstance(made, list | tuple) else [made], c.results):
        if isinstance(value, torch.Tensor) and type_ is not None and type_.has_static_shape:
            told = [*type_.shape], scalar_type_of(type_.element_type)
            if ([*value.shape], str(value.dtype).removeprefix("torch.")) != told:
                return f"eager gives {value.dtype} of {[*value.shape]}, the op has {told[1]} of {told[0]}"
    return None


def _meta(argument: Any, type_: str) -> Any:
    """An argument of a rule as one of the operator. Raises ValueError for a tensor of sizes that are symbols."""
    if isinstance(argument, list | tuple):
        return [_meta(each, type_) for each in argument]
    if isinstance(argument, ir.Value):
        if not argument.type.has_static_shape:
            raise ValueError("its sizes are not known")
        dtype = getattr(torch, scalar_type_of(argument.type.element_type))
        return torch.empty([*argument.type.shape], dtype=dtype, device="meta")
    if isinstance(argument, int) and "ScalarType" in type_:
        return getattr(torch, scalar_type_name(argument))
    if isinstance(argument, ir.AffineExpr) or any(name in type_ for name in ("MemoryFormat", "Layout", "Device")):
        raise ValueError("what PyTorch's functions take is not a number")
    return argument
