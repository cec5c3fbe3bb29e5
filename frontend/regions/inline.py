"""Regions put into the graph that was traced with calls of them: as if all of it had been traced."""

from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.dispatch import without_dispatch_modes
from bascule.compat.tensors.fake_tensors import FakeTensor

from ..fx.graph_ends import inputs_of, outputs_of
from ..fx.storages import storage
from .calls import backward_operator, called, forward_operator
from .templates import PLACE

COPIED = ("stack_trace", "nn_module_stack", "source_fn_stack")  # of what Dynamo tells of a node
_TO_BACKWARD = {"fwd_nn_module_stack": "nn_module_stack", "fwd_source_fn_stack": "source_fn_stack"}


def inline(graph: Graph) -> int:
    """Puts regions where `graph`, AOTAutograd's, calls them. Returns how many calls there were."""
    calls = [
        node
        for node in graph.nodes
        if node.op == "call_function" and node.target in (forward_operator, backward_operator)
    ]
    with without_dispatch_modes():
        for node in calls:
            _put_in(graph, node)
    return len(calls)


def _put_in(graph: Graph, call: Node) -> None:
    tensors, sizes, number = call.args
    template, told = called(number).template, [node.meta for node in called(number).region.nodes]
    part = template.forward if call.target is forward_operator else template.backward
    assert part is not None
    given = iter(tensors), iter(sizes)
    made: dict[Node, Any] = {x: next(given[not isinstance(x.meta["val"], torch.Tensor)]) for x in inputs_of(part)}
    ends = [x for x in outputs_of(part) if x is not None]
    seen = {x: made[x] for x in made if isinstance(made[x], Node)} | {ends[user.args[1]]: user for user in call.users}
    values = Values({x: node.meta["val"] for x, node in seen.items()})
    with graph.inserting_before(call):
        for node in part.nodes:
            if node.op == "call_function":
                made[node] = graph.node_copy(node, made.__getitem__)
                made[node].meta["val"] = values.of(node.meta.get("val"))
                _tell(made[node].meta, told)
    for part_of in [*call.users]:
        assert part_of.target is getitem
        part_of.replace_all_uses_with(made[ends[part_of.args[1]]])
        graph.erase_node(part_of)
    graph.erase_node(call)


def _tell(meta: dict[str, Any], told: list[dict[str, Any]]) -> None:
    """Has `meta`, of a node of a template, tell what Dynamo told of the node of this region that it came from."""
    for name in ("tensor_meta", "from_node"):
        meta.pop(name, None)
    place, _, more = meta.pop(PLACE, "").partition("\n")  # AOTAutograd adds a line where it adds gradients
    if not place.isdigit():
        return
    source = told[int(place)]
    names = {name: name for name in COPIED} | {name: of for name, of in _TO_BACKWARD.items() if name in meta}
    meta.update({name: source[of] for name, of in names.items() if of in source})
    if more and PLACE in meta:
        meta[PLACE] += more


class Values:
    """Fake tensors like those of a template, which share memory as they do: with each other, and with those that nodes outside were traced
    with: `ends`, for inputs and outputs of the template. Made where no dispatch mode is in force."""

    def __init__(self, ends: dict[Node, Any]):
        pairs = [(x.meta["val"], value) for x, value in ends.items() if isinstance(value, torch.Tensor)]
        self._storages = {storage(of): value.untyped_storage() for of, value in reversed(pairs)}

    def of(self, value: Any) -> Any:
        match value:
            case torch.Tensor():
                return self._tensor(value)
            case tuple() | list():
                return type(value)(map(self.of, value))
        return value

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        place = storage(value)
        if place not in self._storages:
            number = value.untyped_storage().nbytes()
            self._storages[place] = torch.empty(number, dtype=torch.uint8, device="meta").untyped_storage()
        at = self._storages[place], value.storage_offset(), value.shape, value.stride()
        return FakeTensor(value.fake_mode, torch.empty(0, dtype=value.dtype, device="meta").set_(*at), value.device)  # type: ignore
