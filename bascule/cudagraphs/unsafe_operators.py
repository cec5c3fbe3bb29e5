"""Operators that a CUDA graph cannot hold: they wait for the GPU, or do on the host what a replay would not do again."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from bascule.frontend.aot.grouped_products import is_loop
from bascule.frontend.torch_patches.custom_op_gradients import LOOKS

from ..compat.operators.schemas import OpOverload
from ..compat.tensors.pytree import tree_leaves

# Their CUDA implementations read back numbers, or call libraries that synchronise.
_WAIT = frozenset(
    {
        "_cholesky_solve_helper",
        "_ctc_loss",
        "_cudnn_ctc_loss",
        "_linalg_check_errors",
        "_linalg_det",
        "_linalg_eigh",
        "_linalg_eigvals",
        "_linalg_slogdet",
        "_linalg_solve_ex",
        "_linalg_svd",
        "_pack_padded_sequence",
        "bincount",
        "cholesky_inverse",
        "geqrf",
        "linalg_cholesky_ex",
        "linalg_eig",
        "linalg_householder_product",
        "linalg_inv_ex",
        "linalg_ldl_factor_ex",
        "linalg_lstsq",
        "linalg_lu",
        "linalg_lu_factor_ex",
        "linalg_matrix_exp",
        "linalg_qr",
        "mode",
        "ormqr",
    }
)
_REBIND = frozenset({"resize_", "resize_storage_bytes_", "set_", "shallow_copy_data_"})
_MASKS = (torch.bool, torch.uint8)
_UNSAFE = getattr(torch.Tag, "cudagraph_unsafe", None)


def unrecordable(graph: Graph) -> dict[Node, str]:
    """The nodes of `graph`, whose tensors are on a GPU, that cannot be recorded, with the reason."""
    found = ((node, _reason(node)) for node in graph.nodes if node.op == "call_function")
    return {node: reason for node, reason in found if reason is not None}


def _reason(node: Node) -> str | None:
    target = node.target
    if not isinstance(target, OpOverload):
        return None  # what is no operator of ATen's kind runs by itself anyway
    name = target._schema.name.rpartition("::")[2]
    if _UNSAFE is not None and _UNSAFE in target.tags:
        return "its author marked it as one that no CUDA graph can hold"
    if LOOKS in node.meta:
        return "it may wait for the GPU, as its gradient does, which a CUDA graph cannot hold"
    if name in _WAIT and target.namespace == "aten":
        return "the host waits for the GPU in it, which a CUDA graph cannot hold"
    if name in _REBIND:
        return "it gives a tensor other memory, which a CUDA graph cannot hold"
    if target.namespace == "bascule" and name == "grouped_mm" and is_loop(*_grouped(node)):
        return "the host waits for where the groups end, which a CUDA graph cannot hold"
    if name == "histc" and _looks_for_ends(node):
        return "the host waits for the least and the largest element, which a CUDA graph cannot hold"
    if name in ("index_put", "_unsafe_index_put") and _puts_at_mask(node):
        return "the host waits for the places where its mask is set, which a CUDA graph cannot hold"
    if _leaves_gpu(node):
        return "its result is on the CPU, and a CUDA graph stays on the GPU"
    return None


def _puts_at_mask(node: Node) -> bool:
    """Whether several values are put where a mask is set; one value is a select."""
    indices, values = node.args[1], node.args[2]
    one = values.meta["val"].dim() == 0
    return not one and any(isinstance(x, Node) and x.meta["val"].dtype in _MASKS for x in indices)


def _grouped(node: Node) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The tensors of a grouped product, and how many groups there are."""
    x, y, offsets = (argument.meta["val"] for argument in node.args)
    return x, y, offsets.shape[0]


def _looks_for_ends(node: Node) -> bool:
    """Whether a histogram is of equal ends, which stand for those of the elements; those of integers are cut to integers."""
    low, high = (node.kwargs.get(key, node.args[n] if len(node.args) > n else 0) for n, key in ((2, "min"), (3, "max")))
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return True
    floats = node.meta["val"].dtype.is_floating_point
    return low == high if floats else int(low) == int(high)


def _leaves_gpu(node: Node) -> bool:
    inputs = (x for near in node.all_input_nodes for x in tensors(near.meta.get("val")))
    return not all(map(on_gpu, tensors(node.meta.get("val")))) and any(map(on_gpu, inputs))


def on_gpu(x: torch.Tensor) -> bool:
    return x.device.type == "cuda"


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a node's value."""
    return (x for x in tree_leaves(value) if isinstance(x, torch.Tensor))
