"""Numbers that tensors hold (`x.item()`), of which the program asserts what they are (`torch._check(n == 4)`).

The tracer takes such an assertion for the truth: it puts the number asserted in the place of the one in the tensor, and the assertion itself
becomes one about constants. So the graph has to look at the tensor by itself.
"""

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

aten = torch.ops.aten
_ITEM = aten._local_scalar_dense.default
_CHECKED = "bascule_checked"


def check_numbers_from_data(graph: Graph) -> None:
    """Adds to `graph`, after each `item` whose number is known otherwise, that the tensor holds that number.

    On a CPU RuntimeError is raised where it does not; on a GPU the device's own assertion fails, and the host does not wait for it.
    """
    for node in graph.find_nodes(op="call_function", target=_ITEM):
        value = node.meta.get("val")
        if isinstance(value, int | torch.SymInt) and not free_unbacked_symbols(value) and not node.meta.get(_CHECKED):
            node.meta |= {_CHECKED: True, "unbacked_bindings": {}}
            _check(graph, node)


def _check(graph: Graph, node: Node) -> None:
    tensor, number = node.args[0], node.meta["val"]
    assert isinstance(tensor, Node)
    found = tensor.meta["val"]
    with graph.inserting_after(node):
        equal = graph.call_function(torch.ops.aten.eq.Scalar, (tensor, node))
    equal.meta = {**_where(node), "val": torch.ops.aten.eq.Scalar(found, number)}
    with graph.inserting_after(equal):
        message = f"Runtime assertion failed for expression Eq(item, {number})"
        check = graph.call_function(aten._assert_async.msg, (equal, message))
    check.meta = {**_where(node), "val": None}


def _where(node: Node) -> dict[str, object]:
    return {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack") if key in node.meta}
