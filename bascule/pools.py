"""The memory that recordings of CUDA graphs take, as the memory plan tells it before anything has run."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef

from bascule.frontend.tracing import hint
from bascule.runtime.replay import Recording

from .recordings import outputs_of, placeholders
from .summary import Summary, grouped
from .unrecordable import tensors


@dataclass(frozen=True)
class Pool:
    """The bytes that a graph's recording has in the pool.

    `arena`: intermediates, only while it runs; an expression of the symbols where sizes are dynamic. `inputs`: places of inputs that are copied,
    only while it runs. `outputs`: until the step's end; of dynamic sizes, inputs and outputs as they were seen first.
    """

    arena: str
    inputs: int
    outputs: int

    @property
    def running(self) -> int:
        """All of it, as far as it is a number."""
        return (int(self.arena) if self.arena.isdigit() else 0) + self.inputs + self.outputs

    def __str__(self) -> str:
        return f"an arena of {grouped(self.arena)} bytes, {self.inputs:,} bytes of copied inputs and {self.outputs:,} of outputs"


def pool_of(what: Recording, gm: GraphModule, summary: Summary | None) -> Pool:
    """What the compiled `gm` takes, recorded as `what` says."""
    nodes = placeholders(gm.graph)
    memory = summary.memory if summary is not None else None
    copied = (x for n, x in enumerate(nodes) if n not in what.static and n not in what.integers)
    given = {StorageWeakRef(x.untyped_storage()) for node in nodes for x in tensors(node.meta.get("val"))}
    made: dict[StorageWeakRef, int] = {}  # results that share memory have it once
    for node in outputs_of(gm.graph):
        for x in tensors(node.meta.get("val")) if isinstance(node, Node) else ():
            storage = StorageWeakRef(x.untyped_storage())
            made[storage] = max(made.get(storage, 0), _bytes(x))
    return Pool(
        memory.arena if memory is not None else "0",
        sum(_bytes(x) for node in copied for x in tensors(node.meta.get("val"))),
        sum(size for storage, size in made.items() if storage not in given),
    )


def pool_bytes(pools: Iterable[Pool]) -> int:
    """The most bytes that are live at one time where graphs run in this order, a forward and its backward say."""
    kept = most = 0
    for pool in pools:
        most = max(most, kept + pool.running)
        kept += pool.outputs
    return most


def _bytes(x: torch.Tensor) -> int:
    return x.element_size() * (hint(x.numel()) or 0)
