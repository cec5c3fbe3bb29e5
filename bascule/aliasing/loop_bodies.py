"""The graphs that loops call with what they returned before."""

import torch
from torch.fx import GraphModule
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from bascule.frontend.fx.trace_context import fake_mode_of, inside

from .overlaps import share_places_now

LOOPS = ("scan", "while_loop", "while_loop_stack_output")


def give_each_element_its_place(gm: GraphModule) -> None:
    """Makes inputs of `gm` row-major that were traced with elements that share places in memory, as a carry that is expanded has them.

    What the loop hands on at its later steps has a place for each, and cannot be laid out as at the first one.
    """
    nodes = gm.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in nodes]
    shared = [isinstance(x, torch.Tensor) and share_places_now(x) for x in values]
    if not any(shared):
        return
    mode = fake_mode_of(values)
    with inside(mode):
        given = [
            torch.empty_like(x, memory_format=torch.contiguous_format) if own else x for x, own in zip(values, shared)
        ]
        FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*given)
