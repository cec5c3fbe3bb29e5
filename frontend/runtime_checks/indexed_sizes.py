"""Checks that a dimension which is indexed has elements, where its size is data's: a kernel clamps an index into the dimension, and has no place
to clamp it to where there are none.

They look at sizes alone, so that nobody waits for a device, and no option leaves them out: without them a kernel would read, or write, before
the tensor. Eager raises for such an index from the host, on a GPU too.
"""

import torch
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..fx.node_values import complete_values
from .index_checks import Range, ranges, size_node, size_of, where_of
from .value_checks import operator_of, value_of


def check_indexed_sizes(gm: GraphModule) -> int:
    """Adds checks that dimensions which are indexed have elements to the graph of `gm`, of functional ATen operators. Where one fails,
    `IndexOutOfRangeError` names the user's operator. Returns how many it added."""
    graph, done = gm.graph, set[Range]()
    for node in [*graph.nodes]:
        for wanted in ranges(node) if node.op == "call_function" else ():
            if wanted in done or not _may_be_empty(wanted):
                continue
            done.add(wanted)
            text = f"{operator_of(node)}: an index is out of bounds for {where_of(wanted)}"
            with graph.inserting_before(node):
                arguments = (wanted.index, size_node(graph, wanted), text)
                check = graph.call_function(torch.ops.bascule.check_indexed_size.default, arguments)
            check.meta |= {key: node.meta[key] for key in ("stack_trace", "original_aten") if key in node.meta}
            check.meta["val"] = None
    if done:
        complete_values(graph)
        gm.recompile()
    return len(done)


def _may_be_empty(wanted: Range) -> bool:
    size = size_of(wanted)
    if not isinstance(size, torch.SymInt) or value_of(wanted.index) is None:
        return False
    return not statically_known_true(size > 0)
