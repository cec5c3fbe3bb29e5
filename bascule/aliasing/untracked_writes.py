"""Writes that a functional graph does not follow: such a graph runs as eager runs it.

A functional graph gives what is written a new value, with an element for each index. Where two indices have one place in memory, it has two
elements for it, and what it writes back is the last one. And of inputs that share memory AOTAutograd follows what is written only if they are
views of one tensor, of one dtype. Of memory that an input is given (`x.data = y`) it follows what is written under `no_grad`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any
from warnings import warn

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from bascule.frontend.aot.retrace import with_values, writes_to
from bascule.frontend.fx.stack_traces import location_of
from bascule.frontend.fx.storages import storage, unwrapped

from ..compat.graphs.dynamo import SET_DATA, set_grad_enabled
from ..compat.tensors.pytree import tree_leaves
from ..errors import FallbackWarning, UnsupportedError
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.counters import count
from .overlaps import may_share_places, mixed_storages, share_places, share_places_now

_VALUES = ("example_value", "val")  # what Dynamo, and what other tracers, note values of nodes as
OVERLAP = "writes to a tensor, or to a view of one, whose elements share places in memory"
OTHER_VIEWS = "writes to memory of several inputs, which are not views of one tensor, of one dtype"
GIVEN = "writes to memory that an input was given (`x.data = y`), with gradients enabled"


@dataclass(frozen=True)
class Unfollowed:
    """A write that a functional graph does not track as it is: `node` makes it."""

    node: Node
    reason: str

    def error(self) -> UnsupportedError:
        operator = getattr(self.node.target, "__name__", self.node.target)
        where = location_of(self.node)
        return UnsupportedError(
            f"{operator} {self.reason}", operator=str(operator), location=where, node=self.node.name
        )


def run_as_eager(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    name: str,
    on_record: Callable[[Record], None] | None = None,
) -> bool:
    """Whether `gm`, a graph before it is made functional, has to run as it is; one warning says why. Raises `UnsupportedError` where the option
    `fallback` asks for that."""
    found = unfollowed(gm, example_inputs)
    if found is None:
        return False
    error = found.error()
    if options.fallback == "error":
        raise error
    record = Record(name, options, nodes=len(gm.graph.nodes), fallback=str(error))
    count("graphs", "fallback")
    count("fallbacks", found.reason)
    warn(f"{name} was not compiled and runs as eager runs it: {error}", FallbackWarning, stacklevel=2)
    record.finished()
    if on_record is not None:
        on_record(record)
    return True


def unfollowed(gm: GraphModule, example_inputs: Sequence[Any]) -> Unfollowed | None:
    """The first write that a functional graph made of `gm` would not follow. Sizes and strides that decide it are guarded."""
    values = values_of_nodes(gm, example_inputs)
    tensors = tensors_of_nodes(values)
    mixed = mixed_storages(
        [x for node, found in tensors.items() if node.op in ("placeholder", "get_attr") for x in found]
    )
    # Of each node, the tensors with shared places that it is, or is a view of.
    through: dict[Node, list[torch.Tensor]] = {}
    written: dict[Any, list[int]] = {}  # by calls of a kind, which arguments
    refused = dict.fromkeys(mixed, OTHER_VIEWS)  # by storages, why writes to them are not followed
    given: dict[int | None, str] = {}
    grad_enabled = torch.is_grad_enabled()
    for node in gm.graph.nodes:
        if node.target is set_grad_enabled:
            grad_enabled = node.args[0]
        elif node.target in SET_DATA:
            given |= dict.fromkeys(map(storage, tensors[node]), GIVEN)
        reasons = {x: _reason(tensors.get(x, ()), refused, given if grad_enabled else {}) for x in node.all_input_nodes}
        suspects = [x for x, reason in reasons.items() if x in through or reason is not None]
        if node.op.startswith("call") and suspects:
            kind = _kind(node, values)
            if kind not in written:
                written[kind] = [node.all_input_nodes.index(x) for x in writes_to(gm, node, values)]
            for x in (node.all_input_nodes[number] for number in written[kind]):
                if any(map(share_places, through.get(x, ()))):
                    return Unfollowed(node, OVERLAP)
                if (reason := reasons[x]) is not None:
                    return Unfollowed(node, reason)
        memory = {*map(storage, tensors.get(node, ()))}
        inherited = [x for x in chain(*(through.get(a, ()) for a in node.all_input_nodes)) if storage(x) in memory]
        overlaps = may_share_places if node.op == "placeholder" else share_places_now
        own = [x for x in tensors.get(node, ()) if overlaps(x)]
        if own or inherited:
            through[node] = own + inherited
    return None


def _reason(written: Sequence[torch.Tensor], *refused: Mapping[int | None, str]) -> str | None:
    return next((told[storage(x)] for told in refused for x in written if storage(x) in told), None)


def values_of_nodes(gm: GraphModule, example_inputs: Sequence[Any]) -> dict[Node, Any]:
    """The values of the nodes of `gm`, as far as the trace that made it tells; without a trace, it runs on fake tensors. An input whose `data`
    is set has the value that it has then."""
    if not any(told in node.meta for node in gm.graph.nodes for told in _VALUES):
        with_values(gm, example_inputs)
    inputs = iter(example_inputs)
    found: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        example = next(inputs, None) if node.op == "placeholder" else None
        told = [node.meta[name] for name in _VALUES if name in node.meta]
        if told or node.op == "placeholder":
            found[node] = told[0] if told else example
        elif node.op == "get_attr":
            found[node] = attrgetter(node.target)(gm)
        if node.target in SET_DATA:
            found[node.args[0]] = found[node]
    return found


def _kind(node: Node, values: Mapping[Node, Any]) -> Any:
    """The key of calls that write the same arguments: all but sizes of tensors and values of symbolic numbers."""

    def told(x: Node) -> Any:
        leaves = [getattr(leaf, "dtype", type(leaf)) for leaf in tree_leaves(values.get(x))]
        module = id(values[x]) if isinstance(values.get(x), torch.nn.Module) else None
        return node.all_input_nodes.index(x), leaves, module

    return node.op, node.target, repr(map_arg((node.args, node.kwargs), told))


def tensors_of_nodes(values: Mapping[Node, Any]) -> dict[Node, list[torch.Tensor]]:
    """Those with places in memory, without what function transforms wrap them in."""
    return {node: _tensors(value) for node, value in values.items()}


def _tensors(value: Any) -> list[torch.Tensor]:
    found = [unwrapped(x) for x in tree_leaves(value) if isinstance(x, torch.Tensor)]
    return [x for x in found if x.layout == torch.strided and storage(x) is not None]
