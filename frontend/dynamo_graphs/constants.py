"""The part of a graph of Dynamo's that is the same at every run, because it is made of numbers alone. It is run, on the CPU.

What belongs to it is decided by what runs: operators of PyTorch's that compute, and neither write nor draw.
"""

from typing import Any

import torch
from bascule.dialect.interrupts import pass_on
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from bascule.compat.operators.dispatch import TorchDispatchMode, without_dispatch_modes
from bascule.compat.tensors.pytree import tree_map, tree_map_only

from ..fx.operator_effects import keeps_order, leaves_unwritten
from .called_operators import WrittenMemory, function_of
from .traced_values import is_known_before, leaves, tensors_of, traced

LARGEST = 1 << 27  # bytes of memory of a tensor that is made here

CPU = torch.device("cpu")


class Constants:
    """The values of nodes that are the same at every run, as tensors of the CPU."""

    def __init__(self, gm: GraphModule, memory: WrittenMemory) -> None:
        self._memory = memory
        self._functions: dict[Node, Any] = {}  # of the nodes that may be run
        self._known: dict[Node, Any] = {}  # None: that could not be run
        for node in gm.graph.nodes:
            if node.op in ("call_function", "call_method") and all(x in self._functions for x in node.all_input_nodes):
                function = _runnable(node)
                if function is not None:
                    self._functions[node] = function

    def of(self, node: Node) -> torch.Tensor | None:
        """The value; None where it is not known, or not looked at because of its size."""
        if node not in self._functions:
            return None
        needed = _ancestors(node)
        for each in needed:
            if each not in self._known:
                self._known[each] = self._run(each)
                if self._known[each] is not None:
                    self._memory.only_read(each)
        # Whoever writes to what has been run may do so before it is read.
        if self._known[node] is None or any(map(self._memory.holds, tensors_of(needed))):
            return None
        return self._known[node]

    def drop(self, gm: GraphModule) -> None:
        """Removes what has been run and is not used any more."""
        for node in reversed(gm.graph.nodes):
            if self._known.get(node) is not None and not node.users:
                gm.graph.erase_node(node)

    def _run(self, node: Node) -> Any:
        if any(self._known[x] is None for x in node.all_input_nodes):
            return None
        args, kwargs = tree_map(_on_cpu, map_arg((node.args, node.kwargs), self._known.__getitem__))
        with without_dispatch_modes(), torch.no_grad(), _OnCpu() as calls:
            try:
                value = self._functions[node](*args, **kwargs)
            except Exception as error:  # of a call that is refused, or that the CPU does not have
                pass_on(error)
                return None
        # What comes from nothing comes from an operator: else from a state that no operator told of.
        told = bool(node.all_input_nodes) or calls.count > 0
        return value if told and _agrees(value, traced(node)) else None


class _Refused(Exception):
    """A call whose result another run might not give, or that does more than compute."""


class _OnCpu(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable or keeps_order(func) or leaves_unwritten(func):
            raise _Refused(func)
        self.count += 1
        args, kwargs = tree_map_only(torch.device, _on_cpu, (args, kwargs or {}))
        result = func(*args, **kwargs)
        if _bytes(result) > LARGEST:
            raise _Refused(func)
        return result


def _on_cpu(x: Any) -> Any:
    """`x`, or the CPU for a device, which an argument may be the name of."""
    if isinstance(x, str):
        try:
            torch.device(x)
        except RuntimeError as error:
            pass_on(error)
            return x
    return CPU if isinstance(x, torch.device | str) else x


def _runnable(node: Node) -> Any:
    """The function that `node` calls; None where it is not to be run."""
    value = traced(node)
    if value is None or not is_known_before(value) or _bytes(value) > LARGEST:
        return None
    return None if any(x.requires_grad for x in _tensors(value)) else function_of(node)


def _ancestors(node: Node) -> list[Node]:
    """The nodes that `node` is computed from, with itself, in the order of the graph."""
    found, waiting = {node}, [node]
    while waiting:
        more = [x for x in waiting.pop().all_input_nodes if x not in found]
        found.update(more)
        waiting += more
    return sorted(found)


def _agrees(value: Any, told: Any) -> bool:
    """Whether a value is of the kind that was traced: a mode of the program's may have been on where the node stands."""
    found, wanted = leaves(value), leaves(told)
    return len(found) == len(wanted) and all(map(_alike, found, wanted))


def _alike(x: Any, told: Any) -> bool:
    if not isinstance(told, torch.Tensor):
        return type(x) is type(told) and x == told
    return type(x) is torch.Tensor and x.device == CPU and (x.dtype, x.shape) == (told.dtype, told.shape)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in leaves(value) if isinstance(x, torch.Tensor)]


def _bytes(value: Any) -> int:
    """Of the memory that a value's tensors lie in: less than they have elements for those that repeat some."""
    return max((x.untyped_storage().nbytes() for x in _tensors(value)), default=0)
