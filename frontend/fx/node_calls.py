"""Calls of operators in a graph: new ones, with what other nodes know of themselves; how what they give lies in memory; and their
arguments: in the order of the parameters, those that are written, those that count from a storage's start, those that are objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from bascule.compat.operators.schemas import OpOverload

# Operators on a tensor's memory -> where their `storage_offset` stands.
STORAGE_OFFSETS = {
    torch.ops.aten.as_strided.default: 3,
    torch.ops.aten.as_strided_copy.default: 3,
    torch.ops.aten.as_strided_scatter.default: 4,
}
# Number of dims -> formats of images.
_IMAGES = {4: (torch.channels_last,), 5: (torch.channels_last_3d,)}


def call_like(graph: Graph, like: Node, target: OpOverload, *args: Any, **kwargs: Any) -> Node:
    """A call at the insertion point that stands for the same line of the user's as `like`, a tensor."""
    made = graph.call_function(target, args, kwargs)
    values = map_arg(args, lambda node: node.meta["val"])
    with like.meta["val"].fake_mode:
        made.meta = {**like.meta, "val": target(*values, **kwargs)}
    made.meta.pop("tensor_meta", None)
    return made


def lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same sizes, strides and offset, by their numbers or their symbols' names."""
    return [*map(str, (*a.shape, *a.stride(), a.storage_offset()))] == [
        *map(str, (*b.shape, *b.stride(), b.storage_offset()))
    ]


def memory_format_of(x: torch.Tensor) -> torch.memory_format | None:
    """How a dense tensor lies in memory: row-major, or as an image with its channels beside each other; None for another order."""
    formats = (torch.contiguous_format, *_IMAGES.get(x.dim(), ()))
    return next((each for each in formats if x.is_contiguous(memory_format=each)), None)


def in_places(operator: OpOverload, given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """An argument a parameter of `operator`, from those `given` by place and by name; defaults for the rest."""
    rest = operator._schema.arguments[len(given) :]
    return [*given, *(named.get(parameter.name, parameter.default_value) for parameter in rest)]


def arguments_of(node: Node) -> list[Any]:
    """An argument a parameter of the operator that `node` calls."""
    return in_places(node.target, node.args, node.kwargs)  # type: ignore[arg-type]


def is_object(node: Node) -> bool:
    """Whether `node` makes an object, no tensor or number: so FX writes a data class among the arguments of a higher-order operator."""
    return node.op == "call_function" and isinstance(node.target, type) and node.meta.get("val") is None


def is_written(parameter: torch.Argument) -> bool:
    """Whether an operator writes to what it is given for `parameter`, one of its schema."""
    return parameter.alias_info is not None and parameter.alias_info.is_write


def written_by(node: Node) -> list[Node]:
    """The tensors that the operator that `node` calls writes to, those in lists too."""
    pairs = zip(node.target._schema.arguments, arguments_of(node))  # type: ignore[union-attr]
    written = [x for parameter, x in pairs if is_written(parameter)]
    listed = [x for many in written for x in (many if isinstance(many, list | tuple) else [many])]
    return [x for x in listed if isinstance(x, Node)]
