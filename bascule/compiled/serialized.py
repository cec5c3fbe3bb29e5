"""A split graph as the disk cache and packages have it: its wrapper's source, what it calls and holds, and how that is told of in JSON."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch

from bascule.frontend.graph_split.split_point import Cut
from bascule.runtime.memory.tensor_serialization import bytes_of, told_of
from bascule.runtime.modules.split_graph import path_of

from ..compat.operators.schemas import HigherOrderOperator
from .compiled_graph import NotSerializable

Whole = TypeVar("Whole")  # a compiled graph that is not in parts, serialized
# Higher-order operators that find what they call by a number of this process.
_NUMBERED = "triton_kernel_wrapper"


@dataclass(frozen=True)
class SerializedConstant:
    """A constant that a split wrapper calls or holds. `kind`: a role of a compiled `graph` (`ROLES`), or "tensor", "operator", "function"."""

    kind: str
    name: str = ""  # of the graph among those of the split one
    settings: Mapping[str, Any] = field(default_factory=dict)
    graph: Any = None  # `SerializedSplit`, or a whole one
    tensor: torch.Tensor | None = None


@dataclass(frozen=True)
class SerializedSplit:
    """`source` without the user's lines, which are `locations`: number of a line -> the user's; `constants`: in its order; `nodes`: of the FX
    graph; `tangents`: numbers of a backward's inputs that are gradients."""

    source: str
    locations: Mapping[int, str]
    cuts: Sequence[Cut]
    constants: Sequence[SerializedConstant]
    nodes: int
    tangents: Sequence[int] = ()


class Writer(ABC, Generic[Whole]):
    """Tells of graphs as JSON; `Whole` is told of by a subclass. `blobs`: what is no JSON, by name."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def graph(self, serialized: Whole | SerializedSplit) -> dict[str, Any]:
        """Raises `NotSerializable`."""
        return self._split(serialized) if isinstance(serialized, SerializedSplit) else self.whole(serialized)

    @abstractmethod
    def whole(self, serialized: Whole) -> dict[str, Any]: ...

    @abstractmethod
    def line(self, place: str) -> int | str | None:
        """The serialized form of a line of the user's."""

    def tensor(self, value: torch.Tensor) -> dict[str, Any]:
        name = f"constants/{len(self.blobs)}"
        self.blobs[name] = bytes_of(value)
        return told_of(value) | {"blob": name}

    def _split(self, serialized: SerializedSplit) -> dict[str, Any]:
        cuts = [[cut.operator, cut.reason, cut.location and self.line(cut.location)] for cut in serialized.cuts]
        locations = [[line, self.line(place)] for line, place in serialized.locations.items()]
        constants = [self._constant(x) for x in serialized.constants]
        return {"chain": serialized.source, "locations": locations, "cuts": cuts, "constants": constants}

    def _constant(self, constant: SerializedConstant) -> dict[str, Any]:
        told = {"kind": constant.kind, "name": constant.name, "settings": dict(constant.settings)}
        if constant.graph is not None:
            told["graph"] = self.graph(constant.graph)
        if constant.tensor is not None:
            told["tensor"] = self.tensor(constant.tensor)
        return told


def serialized_object(value: Any, *, called: bool) -> SerializedConstant:
    """A constant that is no compiled graph. Raises `NotSerializable` for one that another process may have otherwise."""
    if isinstance(value, HigherOrderOperator):
        if value.name().startswith(_NUMBERED):
            raise NotSerializable("a Triton kernel of the user's, which goes by a number of the process")
        return SerializedConstant("operator", settings={"name": value.name(), "called": called})
    if isinstance(value, torch.Tensor):
        if (
            type(value) is not torch.Tensor
            or value.layout is not torch.strided
            or value.is_quantized
            or value.requires_grad
        ):
            raise NotSerializable("a graph in parts that holds a tensor with more to it than its elements")
        return SerializedConstant("tensor", tensor=value)
    if isinstance(value, torch.fx.GraphModule):
        raise NotSerializable("an operator that is given a graph as it is")
    path = path_of(value)
    if path is None:
        raise NotSerializable(
            f"a graph in parts that holds an object of type {type(value).__module__}.{type(value).__qualname__}"
        )
    return SerializedConstant("function", settings=dict(zip(("module", "name"), path)))
