"""Where a graph's tensors are: which device its kernels run on."""

from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.frontend.fx.operator_effects import copies_to_host
from bascule.frontend.fx.stack_traces import location_of

from ..compat.tensors.pytree import tree_leaves
from ..dialect.ir.attribute_names import HOST_INPUTS, HOST_OUTPUTS
from ..dialect.ir.functions import graph_functions
from ..dialect.mlir import ir
from ..errors import UnsupportedError

DEVICE = "bascule.device"
KINDS = ("cpu", "cuda")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Placement:
    """A graph on `device`. On a GPU, CPU tensors among its inputs are moved there first and results that belong on the CPU are moved last.

    `host_inputs`: numbers of such inputs, counted among the tensors. `host_outputs`: numbers of such outputs, counted among all. What a memory
    budget keeps on the host is neither: its copies are calls of the graph's own.
    """

    device: torch.device
    host_inputs: tuple[int, ...] = ()
    host_outputs: tuple[int, ...] = ()

    def annotate(self, module: ir.Module) -> None:
        """Writes this on the graph function: a program says where it runs."""
        with module.context:
            for graph in graph_functions(module):
                graph.attributes[DEVICE] = ir.StringAttr.get(str(self.device))
                for name, numbers in ((HOST_INPUTS, self.host_inputs), (HOST_OUTPUTS, self.host_outputs)):
                    if numbers:
                        graph.attributes[name] = ir.DenseI64ArrayAttr.get(list(numbers))


def placement_of(gm: GraphModule) -> Placement:
    """Where `gm`, a functional graph, runs: on the GPU if it has tensors on one, else on the CPU.

    Raises `UnsupportedError` that names the tensors for two GPUs, for a device of another kind, and for CPU tensors that a graph on a
    GPU writes.
    """
    found: dict[torch.device, Node] = {}
    for node in gm.graph.nodes:
        for tensor in _tensors(node):
            found.setdefault(_normal(tensor.device), node)
    for device, node in found.items():
        if device.type not in KINDS:
            raise _unsupported(node, f"the tensor '{node.name}' is on device '{device}'", f"known: {', '.join(KINDS)}")
    gpus = [device for device in found if device != CPU]
    if len(gpus) > 1:
        named = " and ".join(f"'{found[device].name}' on '{device}'" for device in gpus)
        raise _unsupported(found[gpus[1]], f"tensors of one graph are on two GPUs: {named}", "move them to one device")
    if not gpus or CPU not in found:
        return Placement(gpus[0] if gpus else CPU)
    return Placement(gpus[0], _host_inputs(gm, gpus[0]), _host_outputs(gm))


def meta_work(graph: Graph) -> dict[Node, str]:
    """The nodes that read or make tensors without elements, with the reason: they run by themselves, and no kernel is made for them."""
    found = {node for node in graph.nodes if any(x.is_meta for x in _tensors(node))}
    if not found:
        return {}
    return {
        node: "its tensors are on the device 'meta', where nothing is computed"
        for node in graph.nodes
        if node.op == "call_function" and not found.isdisjoint((node, *node.all_input_nodes))
    }


def host_work(graph: Graph, *, replayed: bool) -> dict[Node, str]:
    """The nodes that compute on the CPU what is written to an input there, in a graph with tensors on a GPU, with the reason:
    they run by themselves.

    Where the graph is to be `replayed` as a CUDA graph, those too whose results it returns.
    """
    waiting = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    if replayed:
        waiting += [node for node in graph.output_node().all_input_nodes if node.op == "call_function"]
    waiting = [node for node in waiting if _on_cpu(node)]
    if not waiting or all(_normal(x.device) == CPU for node in graph.nodes for x in _tensors(node)):
        return {}
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and node.op == "call_function" and _on_cpu(node):
            found.add(node)
            waiting += node.all_input_nodes
    return {node: "it computes on the CPU what stays there" for node in graph.nodes if node in found and _tensors(node)}


def _on_cpu(node: Node) -> bool:
    """Whether all tensors that `node` reads and makes are on the CPU."""
    return all(_normal(x.device) == CPU for near in (node, *node.all_input_nodes) for x in _tensors(near))


def _host_inputs(gm: GraphModule, device: torch.device) -> tuple[int, ...]:
    numbers, count = [], 0
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        for tensor in _tensors(node):
            if _normal(tensor.device) == CPU:
                for user in node.users:
                    if user.target is torch.ops.aten.copy_.default and user.args[0] is node:
                        text = f"the graph on '{device}' writes to '{node.name}', a tensor on the CPU"
                        raise _unsupported(node, text, "keep it on the GPU, or write to it outside of what is compiled")
                if not (node.users and all(map(copies_to_host, node.users))):
                    numbers.append(count)
            count += 1
    return tuple(numbers)


def _host_outputs(gm: GraphModule) -> tuple[int, ...]:
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    listed = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
    nodes = [(number, node) for number, node in enumerate(listed) if isinstance(node, Node)]
    return tuple(
        n
        for n, node in nodes
        if not copies_to_host(node) and any(_normal(tensor.device) == CPU for tensor in _tensors(node))
    )


def _tensors(node: Node) -> list[torch.Tensor]:
    return [value for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def _normal(device: torch.device) -> torch.device:
    """With its number, as tensors of one device may or may not name it."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return CPU if device.type == "cpu" else device


def _unsupported(node: Node, text: str, hint: str) -> UnsupportedError:
    """At the user's line of `node`; of an input, which has none, at its first use."""
    where = next(filter(None, map(location_of, (node, *node.users))), None)
    return UnsupportedError(text, operator=str(node.target), location=where, hint=hint)
