"""Where a graph's tensors are: which device its kernels run on."""

from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from .dialect.ir.functions import graph_functions
from .dialect.mlir import ir
from .errors import UnsupportedError

DEVICE, HOST_INPUTS, HOST_OUTPUTS = "bascule.device", "bascule.host_inputs", "bascule.host_outputs"
KINDS = ("cpu", "cuda")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Placement:
    """A graph on `device`. On a GPU, CPU tensors among its inputs are moved there first and results that belong on the CPU are moved last.

    `host_inputs`: numbers of such inputs, counted among the tensors. `host_outputs`: numbers of such outputs, counted among all.
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
                numbers.append(count)
            count += 1
    return tuple(numbers)


def _host_outputs(gm: GraphModule) -> tuple[int, ...]:
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    listed = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
    nodes = [(number, node) for number, node in enumerate(listed) if isinstance(node, Node)]
    return tuple(n for n, node in nodes if any(_normal(tensor.device) == CPU for tensor in _tensors(node)))


def _tensors(node: Node) -> list[torch.Tensor]:
    return [value for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def _normal(device: torch.device) -> torch.device:
    """With its number, as tensors of one device may or may not name it."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return CPU if device.type == "cpu" else device


def _unsupported(node: Node, text: str, hint: str) -> UnsupportedError:
    return UnsupportedError(text, operator=str(node.target), hint=hint)
