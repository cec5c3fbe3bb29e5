"""Import of `auto_functionalized_v2`: how AOTAutograd writes an operator that mutates its arguments, a user's own for example.

Its node holds the operator, the tensors whose memory it writes (`_all_bases`), and for each mutated argument `x` which base it is a view of
(`_x_base_index`) and how (`_x_alias`, or `_x_slice_*`, or `_x_size`, `_x_stride`, `_x_storage_offset`). Here the operator takes views of the
bases and returns, after its results, the new contents of each mutated argument; these are then written into the bases.
Checked on torch 2.11 to 2.14.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.mlir import ir
from torch.fx import Node

from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.layouts import is_non_overlapping_and_dense_or_false

from ..conversion.torch_stage import INSIDE
from ..fx.node_calls import STORAGE_OFFSETS, is_written
from ..fx.storage_places import inside

aten = torch.ops.aten

Structure: TypeAlias = ir.Value | list["Structure"] | None  # the results of a node, nested as its `meta["val"]` is


class ValueOf(Protocol):
    def __call__(self, node: Node) -> ir.Value:
        """The tensor that `node` computes."""


class Call(Protocol):
    def __call__(
        self, node: Node, target: OpOverload, given: Sequence[Any], named: Mapping[str, Any], value: Any
    ) -> Structure:
        """Imports a call of `target`, on behalf of `node`, with FX arguments (or values), which returns what `value` is like."""


@dataclass
class _Tensor:
    value: ir.Value
    fake: torch.Tensor


@dataclass(frozen=True)
class _View:
    """How a mutated argument is a view of base number `base`: by operator `by`, written back by `back`, both with `arguments`."""

    base: int
    by: OpOverload | None = None
    back: OpOverload | None = None
    arguments: tuple = ()

    @staticmethod
    def of(name: str, described: dict[str, Any], bases: list[_Tensor]) -> "_View | None":
        """The view that the entries `_name_*` describe; None for an argument that is None."""
        number = described[f"_{name}_base_index"]
        if number is None:
            return None
        if f"_{name}_slice_dim" in described:
            arguments = tuple(described[f"_{name}_slice_{part}"] for part in ("dim", "start", "end"))
            return _View(number, aten.slice.Tensor, aten.slice_scatter.default, (*arguments, 1))
        if f"_{name}_size" in described:
            size, stride = described[f"_{name}_size"], described[f"_{name}_stride"]
            offset = _concrete(described[f"_{name}_storage_offset"]) - bases[number].fake.storage_offset()
            return _View(number, aten.as_strided.default, aten.as_strided_scatter.default, (size, stride, offset))
        return _View(number)


def _concrete(argument: Any) -> Any:
    """An FX argument as fake tensor operators take it."""
    if isinstance(argument, list | tuple):
        return [_concrete(part) for part in argument]
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _scattered(base: torch.Tensor) -> torch.Tensor:
    """A fake tensor as `as_strided_scatter` makes one of `base`, wherever it scatters: PyTorch's has no memory before a `base` that does not
    begin its storage."""
    moved = base.new_empty_strided(base.shape, base.stride())
    return aten.as_strided_scatter.default(moved, moved.new_empty(0), (0,), (1,), 0)


def _check_places(base: torch.Tensor, view: tuple) -> None:
    """Refuses a view (sizes, strides, offset) by places that a new value of `base` may not have: that has its elements, and nothing between."""
    if not is_non_overlapping_and_dense_or_false(base):
        raise UnsupportedError("it writes to a view of a tensor with gaps or overlaps")
    if not inside(base, *view):
        raise UnsupportedError("what it writes may lie outside of the tensor, in the rest of its storage")


class _Import:
    def __init__(self, node: Node, value_of: ValueOf, call: Call):
        self.node, self.call = node, call
        described = dict(node.kwargs)
        self.bases = [_Tensor(value_of(base), base.meta["val"]) for base in described.pop("_all_bases")]
        self.described = described

    def apply(self, operator: OpOverload, tensors: list[_Tensor], arguments: tuple) -> _Tensor:
        """`operator` of tensors and FX arguments, imported; `as_strided` counts from the first element, in a fake tensor from its storage's."""
        fakes = [tensor.fake for tensor in tensors]
        concrete = list(map(_concrete, arguments))
        if operator in STORAGE_OFFSETS:
            _check_places(fakes[0], arguments)
        if operator == aten.as_strided_scatter.default:
            fake = _scattered(fakes[0])
        else:
            if operator in STORAGE_OFFSETS:
                concrete[-1] += fakes[0].storage_offset()
            fake = operator(*fakes, *concrete)
        given = [*(tensor.value for tensor in tensors), *arguments]
        made = _Tensor(self.call(self.node, operator, given, {}, fake), fake)
        if operator in STORAGE_OFFSETS:
            made.value.owner.attributes[INSIDE] = ir.UnitAttr.get()
        return made

    def argument(self, view: _View) -> _Tensor:
        viewed = self.bases[view.base]
        return viewed if view.by is None else self.apply(view.by, [viewed], view.arguments)

    def views(self, name: str) -> "list[_View | None] | _View | None":
        length = self.described.get(f"_{name}_length")
        if length is None:
            return _View.of(name, self.described, self.bases)
        return [_View.of(f"{name}_{i}", self.described, self.bases) for i in range(length)]

    def run(self) -> Structure:
        (target,) = self.node.args
        given: list[Any] = []
        written: list[tuple[_View, _Tensor]] = []
        for parameter in target._schema.arguments:
            name = parameter.name
            if name in self.described:
                given.append(self.described[name])
            elif is_written(parameter):
                views = self.views(name)
                listed = views if isinstance(views, list) else [views]
                tensors = [None if view is None else (view, self.argument(view)) for view in listed]
                values = [None if pair is None else pair[1].value for pair in tensors]
                given.append(values if isinstance(views, list) else values[0])
                written += [pair for pair in tensors if pair is not None]
            else:
                given.append(parameter.default_value)
        if len({view.base for view, _ in written}) < len(written):
            raise UnsupportedError(f"{target} writes to two arguments that may share memory")
        outputs = list(self.node.meta["val"])[: -len(self.bases)] if self.bases else list(self.node.meta["val"])
        returned = outputs[: len(target._schema.returns)]
        contents = [torch.clone(tensor.fake) for _, tensor in written]
        results = self.call(self.node, target, given, {}, [*returned, *contents]) or []
        for (view, _), value, fake in zip(written, results[len(returned) :], contents):
            new = _Tensor(value, fake)
            if view.back is not None:
                new = self.apply(view.back, [self.bases[view.base], new], view.arguments)
            self.bases[view.base] = new
        made = results[: len(returned)] or [None]
        return [*made, *(base.value for base in self.bases)]


def import_functionalized(node: Node, value_of: ValueOf, call: Call) -> Structure:
    """The results of an `auto_functionalized_v2` node: those of the operator (None where it has none), then the bases as it leaves them."""
    return _Import(node, value_of, call).run()
