"""Which devices a graph may use."""

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from .errors import UnsupportedError


def check_devices(gm: GraphModule, target: str) -> None:
    """Raises `UnsupportedError` if a tensor of the graph is on another device than kernels are made for.

    Machine code that was given such a tensor's address would end the process.
    """
    for node in gm.graph.nodes:
        for value in tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.device.type != target:
                raise UnsupportedError(
                    f"the tensor '{node.name}' is on device '{value.device}'",
                    operator=str(node.target),
                    hint=f"the target '{target}' takes tensors on '{target}' only",
                )
