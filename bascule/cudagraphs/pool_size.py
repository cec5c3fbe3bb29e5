"""The memory that recordings of CUDA graphs take, as the memory plan tells it before anything has run."""

from collections.abc import Collection, Iterable

import torch
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef

from bascule.frontend.fx.graph_ends import inputs_of, outputs_of
from bascule.frontend.fx.trace_context import hint
from bascule.runtime.cudagraphs.recording import Recording

from ..reporting.graph_summary import Summary
from ..reporting.pool import Pool
from .unsafe_operators import tensors

RESERVED = "bascule_reserved"  # in the `meta` of a forward's outputs: bytes of the pool that forward and backward are known to need
SMALL = 1 << 20  # bytes: PyTorch's allocator has segments of their own for blocks of no more


def pool_of(what: Recording, gm: GraphModule, summary: Summary | None, nullable: Collection[int] = ()) -> Pool:
    """Estimates the pool's bytes for the compiled `gm`, captured as `what` says; `nullable`: inputs that mostly have no memory."""
    nodes = inputs_of(gm.graph)
    memory = summary.memory if summary is not None else None
    arena = memory.arena if memory is not None else "0"
    copied = (x for n, x in enumerate(nodes) if n not in {*what.static, *what.integers, *nullable})
    inputs = sum(_bytes(x) for node in copied for x in tensors(node.meta.get("val")))
    given = {StorageWeakRef(x.untyped_storage()) for node in nodes for x in tensors(node.meta.get("val"))}
    made: dict[StorageWeakRef, int] = {}  # results that share memory have it once
    for node in outputs_of(gm.graph):
        for x in tensors(node.meta.get("val")) if isinstance(node, Node) else ():
            storage = StorageWeakRef(x.untyped_storage())
            made[storage] = max(made.get(storage, 0), _bytes(x))
    outputs = [size for storage, size in made.items() if storage not in given]
    grows = what.direction == "backward" or what.sized or what.integers or not arena.isdigit()
    large = 0 if grows else sum(size for size in (int(arena), *outputs) if size > SMALL)
    reserved = gm.graph.output_node().meta.get(RESERVED, 0)
    return Pool(arena, inputs, sum(outputs), 0 if grows else max(large, reserved))


def pool_bytes(pools: Iterable[Pool]) -> int:
    """The most bytes that are live at one time where graphs run in this order, a forward and its backward say."""
    kept = most = 0
    for pool in pools:
        most = max(most, kept + pool.running)
        kept += pool.outputs
    return most


def _bytes(x: torch.Tensor) -> int:
    return x.element_size() * (hint(x.numel()) or 0)
