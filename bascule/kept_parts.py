"""A graph in parts that the disk cache has: the chain's source, and each graph that it calls under a key of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import torch

from bascule.frontend.cut_operators import Cut

from .chains import path_of
from .graph_entries import Kept

# Higher-order operators that find what they call by a number of this process.
_NUMBERED = "triton_kernel_wrapper"
_WITHOUT = "a graph that was not compiled, or that the disk cache does not take"


class NotKept(Exception):
    """Why what a graph came to is not kept."""


@dataclass(frozen=True)
class KeptConstant:
    """What a chain calls or holds. `kind`: a role of a compiled `graph` (`chains.ROLES`), or "tensor", "operator", "function"."""

    kind: str
    name: str = ""  # of the graph among those of the chain
    settings: Mapping[str, Any] = field(default_factory=dict)
    graph: Union[Kept, "KeptChain", None] = None
    tensor: torch.Tensor | None = None


@dataclass(frozen=True)
class KeptChain:
    """`source` without the user's lines, which are `locations`: number of a line -> the user's; `constants`: in its order; `nodes`: of the FX
    graph; `tangents`: numbers of a backward's inputs that are gradients."""

    source: str
    locations: Mapping[int, str]
    cuts: Sequence[Cut]
    constants: Sequence[KeptConstant]
    nodes: int
    tangents: Sequence[int] = ()


def kept_of(call: Callable[..., Any]) -> Kept | KeptChain:
    """Under what the disk cache has, or will have, a compiled graph. Raises `NotKept`."""
    found = getattr(call, "kept", None)
    if found is None:
        raise NotKept(_WITHOUT)
    if isinstance(found, NotKept):
        raise found
    return found


def kept_object(value: Any, *, called: bool) -> KeptConstant:
    """A constant that is no compiled graph. Raises `NotKept` for one that another process may have otherwise."""
    if isinstance(value, torch._ops.HigherOrderOperator):
        if value.name().startswith(_NUMBERED):
            raise NotKept("a Triton kernel of the user's, which goes by a number of the process")
        return KeptConstant("operator", settings={"name": value.name(), "called": called})
    if isinstance(value, torch.Tensor):
        if (
            type(value) is not torch.Tensor
            or value.layout is not torch.strided
            or value.is_quantized
            or value.requires_grad
        ):
            raise NotKept("a graph in parts that holds a tensor with more to it than its elements")
        return KeptConstant("tensor", tensor=value)
    if isinstance(value, torch.fx.GraphModule):
        raise NotKept("an operator that is given a graph as it is")
    path = path_of(value)
    if path is None:
        raise NotKept(
            f"a graph in parts that holds an object of type {type(value).__module__}.{type(value).__qualname__}"
        )
    return KeptConstant("function", settings=dict(zip(("module", "name"), path)))
