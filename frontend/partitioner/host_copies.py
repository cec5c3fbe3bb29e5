"""Values that a step keeps on the host between its forward and its backward, where the user allows it: the forward copies them there, and the
backward copies them back before it first reads them. When each copy begins, and where it is waited for, the pass `overlap-host-copies` says.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from ..fx.graph_ends import inputs_of, outputs_of
from .held_tensors import ON_HOST
from .joint_splits import Pair
from .training_step import Step, is_computed_again_for_sure, is_number

LEAST = 1 << 16  # bytes of a value that is worth a copy


@dataclass(frozen=True)
class Link:
    """The link of a device to its host. `time`: of a byte that is copied, in bytes that the device moves in its own memory meanwhile;
    `latency`: of a copy, likewise; `flops_a_byte`: of products in 16 bits and in 32, that the device computes meanwhile."""

    time: float
    latency: float
    flops_a_byte: tuple[float, float]

    def copy(self, size: int) -> float:
        """About how long a copy takes, in the unit of `step_times`."""
        return self.latency + self.time * size

    def step_time(self, step: Step, node: Node) -> float:
        """About how long a call takes on the device, beside which something is copied."""
        value = node.meta.get("val")
        wide = isinstance(value, torch.Tensor) and value.dtype.itemsize > 2
        return step.time(node, self.flops_a_byte[wide])


def movable(step: Step) -> set[Node]:
    """The values of `step` that may be kept on the host."""
    returned = {step.root(node) for node in (*step.forward_outputs, *step.backward_outputs)}
    return {
        node
        for node in step.forward
        if step.root(node) is node
        and not is_number(node)
        and step.size(node) >= LEAST
        and not ({node} & (returned | step.chunked))
        and not is_computed_again_for_sure(node)
        and _is_dense(node)
    }


def _is_dense(node: Node) -> bool:
    value = node.meta["val"]
    return value.layout is torch.strided and torch.empty_like(value).stride() == value.stride()


def keep_on_host(pair: Pair, names: Collection[str]) -> None:
    """Has the forward of `pair` give copies on the host of the values `names`, as far as it saves them."""
    ops = torch.ops.bascule_host
    forward, backward = (gm.graph for gm in pair)
    made = {node.name: node for node in outputs_of(forward) if isinstance(node, Node) and node.name in names}
    copies = {node: _called_after(forward, node, ops.to_host.default, node) for node in made.values()}
    output = forward.output_node()
    output.args = torch.fx.node.map_arg(output.args, lambda node: copies.get(node, node))
    order = {node: number for number, node in enumerate(backward.nodes)}
    for node in inputs_of(backward):
        if node.name in made:
            users = [*node.users]
            device = node.meta["val"].device
            before = min(users, key=order.__getitem__).prev
            node.meta[ON_HOST], node.meta["val"] = True, copies[made[node.name]].meta["val"]
            back = _called_after(backward, before, ops.to_device.default, node, device=device)
            for user in users:
                user.replace_input_with(node, back)


def _called_after(graph: Graph, place: Node, target: object, node: Node, **named: object) -> Node:
    """The result of a copy of `node`, with the wait for it, right after `place`."""
    last = place
    for operator, kwargs, name in (
        (target, named, f"{node.name}_copy"),
        (torch.ops.bascule_host.wait_tensor.default, {}, f"{node.name}_copied"),
    ):
        with graph.inserting_after(last):
            last = graph.create_node("call_function", operator, (node if last is place else last,), kwargs, name)
        last.meta |= {key: node.meta[key] for key in ("stack_trace", "original_aten") if key in node.meta}
        last.meta["val"] = torch.empty_like(node.meta["val"], device=named.get("device", "cpu"))
    return last
