"""A joint graph as a training step: what its forward and its backward compute, and what each node costs, in bytes and in time.

A view has the bytes of what it views: its `root`. A node that `fuses` computes where it reads, and can be computed where it is read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils.checkpoint import CheckpointPolicy
from torch.utils.flop_counter import flop_registry

from bascule.compat.graphs.partitioners import partitioners
from bascule.compat.operators.schemas import OpOverload

from ..fx.graph_ends import outputs_of
from ..fx.operator_effects import draws, is_seen_outside
from ..fx.storages import is_view, storage_of
from ..fx.trace_context import hint

UNKNOWN = 4096  # elements of a tensor whose size only data decides
CHUNKS = 8  # into which rows are cut, about
FLOPS_A_BYTE = 50.0  # that a machine computes while it moves a byte: between a CPU's and a GPU's, not measured


@dataclass(frozen=True, eq=False)
class Step:
    """`forward` and `backward`: the calls that each has to make if all is saved, in order; `given`: inputs of the step, which are there all the
    time; `forward_outputs`, `backward_outputs`: what leaves each; `fuses`: see above; `chunked`: values that are never whole in memory, since
    tensors of `chunk_bytes` or more are made by chunks of rows (0: none is)."""

    graph: Graph
    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    given: frozenset[Node]
    forward_outputs: frozenset[Node]
    backward_outputs: frozenset[Node]
    fuses: Callable[[Node], bool]
    chunked: frozenset[Node] = frozenset()
    chunk_bytes: int = 0
    # Many choices are compared, and the graph stays as it is.
    _reads: dict[Node, Sequence[Node]] = field(default_factory=dict, init=False, repr=False)
    _times: dict[tuple[Node, float], float] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(graph: Graph, info: Any) -> "Step":
        """`graph` as PyTorch's partitioner has sorted its nodes (`NodeInfo`)."""
        types = partitioners.get_default_op_list()
        outputs = [node for node in outputs_of(graph) if isinstance(node, Node)]
        calls = [node for node in graph.nodes if node.op == "call_function"]
        return Step(
            graph,
            tuple(node for node in calls if info.is_required_fw(node) or not info.is_required_bw(node)),
            tuple(node for node in calls if not info.is_required_fw(node) and info.is_required_bw(node)),
            frozenset(info.inputs),
            frozenset(filter(info.is_required_fw, outputs)),
            frozenset(node for node in outputs if not info.is_required_fw(node)),
            lambda node: types.is_fusible(node) or types.is_view(node),
        )

    @cached_property
    def standing(self) -> int:
        """Bytes of what is given: parameters, buffers and inputs, those that share a storage once."""
        sizes: dict[Any, int] = {}
        for node in self.given:
            key = storage_of(node) or node
            sizes[key] = max(sizes.get(key, 0), self.size(node))
        return sum(sizes.values())

    @cached_property
    def _sizes(self) -> dict[Node, int]:
        return {node: tensor_bytes(node.meta.get("val")) for node in self.graph.nodes}

    def size(self, node: Node) -> int:
        """Bytes that the tensor which a node gives has in memory; those of several have none, each that is taken from them has."""
        return self._sizes[node] // CHUNKS if node in self.chunked else self._sizes[node]

    def whole(self, node: Node) -> int:
        """The bytes of that tensor, though it may be made by chunks."""
        return self._sizes[node]

    @cached_property
    def _roots(self) -> dict[Node, Node]:
        found: dict[Node, Node] = {}
        for node in self.graph.nodes:
            found[node] = found[node.args[0]] if node.op == "call_function" and is_view(node) else node  # type: ignore[index]
        return found

    def root(self, node: Node) -> Node:
        """The node whose memory `node` has."""
        return self._roots[node]

    def reads(self, node: Node) -> Sequence[Node]:
        """The roots that a call reads, each once, but for numbers."""
        found = self._reads.get(node)
        if found is None:
            operands = (self.root(each) for each in node.all_input_nodes if not is_number(each))
            found = self._reads[node] = tuple(dict.fromkeys(operands))
        return found

    def time(self, node: Node, flops_a_byte: float = FLOPS_A_BYTE) -> float:
        """About how long a call takes, in bytes that are moved meanwhile: memory that is read and written, and operations of products."""
        key = node, flops_a_byte
        if key not in self._times:
            self._times[key] = self._time(node, flops_a_byte)
        return self._times[key]

    def _time(self, node: Node, flops_a_byte: float) -> float:
        if self.root(node) is not node or node.op != "call_function":
            return 0.0
        moved = self.whole(node) if self.fuses(node) else self.whole(node) + sum(map(self.whole, node.all_input_nodes))
        packet = getattr(node.target, "overloadpacket", None)
        if packet not in flop_registry:
            return float(moved)
        arguments, keywords = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
        return (
            moved
            + float(hint(flop_registry[packet](*arguments, **keywords, out_val=node.meta["val"])) or 0) / flops_a_byte
        )

    @cached_property
    def least_time(self) -> float:
        """That of forward and backward where nothing is computed again."""
        return sum(map(self.time, (*self.forward, *self.backward)))

    def forward_of(self, saved: Iterable[Node]) -> list[Node]:
        """The calls of a forward that saves `saved`, in order."""
        needed, todo = set[Node](), [*self.forward_outputs, *saved]
        while todo:
            node = todo.pop()
            if node not in needed:
                needed.add(node)
                todo += node.all_input_nodes
        return [node for node in self.forward if node in needed]


def is_number(node: Node) -> bool:
    """Whether a node is a symbolic number: it has no memory."""
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def is_saved_for_sure(node: Node) -> bool:
    """Whether a value may not be computed again: others see that it is, or it would be another."""
    if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE:
        return True
    target = node.target
    if not isinstance(target, OpOverload):
        return not callable(target) or getattr(target, "__module__", "") not in ("_operator", "builtins", "math")
    return is_seen_outside(target) or target._schema.is_mutable or draws(target)


def is_computed_again_for_sure(node: Node) -> bool:
    """Whether the user's checkpoint, or a pass, has a value computed again."""
    return node.meta.get("recompute") == CheckpointPolicy.MUST_RECOMPUTE


def tensor_bytes(value: object) -> int:
    """Bytes of a fake tensor; 0 of anything else."""
    if not isinstance(value, torch.Tensor):
        return 0
    elements = hint(value.numel())
    return (UNKNOWN if elements is None else elements) * value.dtype.itemsize
