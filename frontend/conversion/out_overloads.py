"""Which overload of an operator writes its results into given tensors."""

from functools import cache

import torch

from bascule.compat.operators.schemas import FunctionSchema, has_kernel

# The `out` forms of these do something else: tests/operators/test_out_overloads.py looks for them.
_OTHERWISE = {
    "aten.max.default": "takes a tensor of no elements",
    "aten.min.default": "takes a tensor of no elements",
    "aten.linalg_qr.default": "takes two results in one storage, as of an arena, for one tensor",
    "aten.binary_cross_entropy.default": "does not reduce into a tensor of one element",
}


@cache
def out_overload(operator: str) -> str | None:
    """ "aten.mm.out" for "aten.mm.default". None where there is none, one that computes elsewhere and then copies, one that does something
    else, or sizes that depend on data."""
    namespace, name, _ = operator.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    functional = getattr(packet, operator.split(".")[2], None)
    if packet is None or functional is None:
        return None
    # One whose sizes depend on data may resize what it is given.
    if operator in _OTHERWISE or torch.Tag.dynamic_output_shape in functional.tags:
        return None
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if _writes_results_of(candidate._schema, functional._schema):
            own = has_kernel(candidate.name(), "CPU")
            return f"{namespace}.{name}.{overload}" if own else None
    return None


def _writes_results_of(out: FunctionSchema, functional: FunctionSchema) -> bool:
    destinations = [a for a in out.arguments if a.is_out]
    given = [(a.name, str(a.type), a.kwarg_only) for a in out.arguments if not a.is_out]
    wanted = [(a.name, str(a.type), a.kwarg_only) for a in functional.arguments]
    tensors = all(isinstance(a.type, torch.TensorType) for a in [*destinations, *functional.returns])
    return bool(destinations) and tensors and given == wanted and len(destinations) == len(functional.returns)
