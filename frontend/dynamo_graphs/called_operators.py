"""The operators that a node of a graph of Dynamo's comes to, found by calling it: whatever its function or method is named.

It is called with fake tensors over the memory of those that it was traced with. A call that would write to one of them is not made.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from bascule.dialect.interrupts import pass_on
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from bascule.compat.operators.dispatch import TorchDispatchMode, without_dispatch_modes
from bascule.compat.operators.schemas import LIBRARIES, HigherOrderOperator, OpOverload
from bascule.compat.tensors.fake_tensors import FakeTensor
from bascule.compat.tensors.pytree import tree_map_only

from ..fx.node_calls import in_places, is_written
from ..fx.operator_effects import COMPUTE
from ..fx.storages import storage, unwrapped
from .traced_values import is_known_before, leaves, tensors_of, traced

KNOWN = ("torch", "_operator", "builtins")  # modules of the functions that may be called


class Call(NamedTuple):
    """Of an operator. A tensor that the node was given stands in the arguments as its node."""

    operator: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class CalledOperators:
    """Of the nodes of one graph."""

    def __init__(self) -> None:
        self._known: dict[Node, list[Call] | None] = {}

    def of(self, node: Node) -> list[Call] | None:
        """The operators that `node` calls, in order; None where that is not known, or where it may write to what it is given."""
        if node not in self._known:
            self._known[node] = _called(node)
        return self._known[node]


class WrittenMemory:
    """Which memory the nodes of a graph write to, or may."""

    def __init__(self, graph: Graph, called: CalledOperators) -> None:
        self._called = called
        self._reading = set[Node]()
        self._users: dict[int | None, list[Node]] = {}
        places = {node: {storage(unwrapped(x)) for x in tensors_of([node])} for node in graph.nodes}
        for node in graph.nodes:
            for place in set().union(*map(places.__getitem__, node.all_input_nodes)):
                self._users.setdefault(place, []).append(node)

    def only_read(self, node: Node) -> None:
        """Notes of a node that it is known to write to nothing that it is given."""
        self._reading.add(node)

    def holds(self, value: torch.Tensor) -> bool:
        """Whether somebody writes to the memory of a tensor, or may: one whose operand's memory is not known writes anywhere."""
        place = storage(value)
        return place is None or any(map(self._writes, [*self._users.get(place, ()), *self._users.get(None, ())]))

    def _writes(self, node: Node) -> bool:
        if node in self._reading or node.op in ("placeholder", "get_attr", "output"):
            return False
        if isinstance(node.target, OpOverload):
            return node.target._schema.is_mutable
        return self._called.of(node) is None


def function_of(node: Node) -> Callable[..., Any] | None:
    """The function that `node` calls, if it is PyTorch's or Python's own: calling that twice is seen by nobody.

    It has a tensor among what it takes and gives: what sets a mode (of gradients, of autocast, of `vmap`) has none.
    """
    value = traced(node)
    given = next(tensors_of(node.all_input_nodes), None)
    if value is None or (given is None and not any(isinstance(x, torch.Tensor) for x in leaves(value))):
        return None
    if node.op == "call_method":
        is_of_tensor = isinstance(node.args[0], Node) and isinstance(traced(node.args[0]), torch.Tensor)
        return getattr(torch.Tensor, str(node.target), None) if is_of_tensor else None
    if node.op != "call_function" or isinstance(node.target, HigherOrderOperator):
        return None
    target: Any = node.target
    # A method's descriptor says of which class it is. That of a library's operators ends with its name.
    module = getattr(target, "__module__", None) or getattr(target, "__objclass__", type(None)).__module__
    is_foreign = module.startswith(LIBRARIES) and module.rpartition(".")[2] not in COMPUTE
    return target if module.partition(".")[0] in KNOWN and not is_foreign else None


class _Writes(Exception):
    """To what the node was given."""


class _Noting(TorchDispatchMode):
    """Notes operators, up to one that writes to what was given."""

    def __init__(self, given: dict[int, Node], memory: set[int | None]) -> None:
        super().__init__()
        self.given = given  # identity of a tensor -> the node that it stands for
        self.memory = memory
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        pairs = zip(func._schema.arguments, in_places(func, args, kwargs))
        written = [x for parameter, many in pairs if is_written(parameter) for x in leaves(many)]
        if any(isinstance(x, torch.Tensor) and storage(x) in self.memory for x in written):
            raise _Writes
        result = func(*args, **kwargs)
        # Questions of a tensor's metadata are left out, as for its device.
        if not func._schema.returns or any(isinstance(x, torch.Tensor) for x in leaves(result)):
            named = tree_map_only(torch.Tensor, lambda x: self.given.get(id(x), x), (tuple(args), kwargs))
            self.calls.append(Call(func, *named))
        return result


def _called(node: Node) -> list[Call] | None:
    function = function_of(node)
    values = [tree_map_only(torch.Tensor, unwrapped, traced(x)) for x in (*node.all_input_nodes, node)]
    # Calling what has symbolic sizes again could ask new questions of them.
    if function is None or not all(map(is_known_before, values)):
        return None
    mode = next(x.fake_mode for value in values for x in leaves(value) if isinstance(x, FakeTensor))
    with without_dispatch_modes(), mode, torch.no_grad():
        # Another tensor over the same memory: what is called may change the metadata of its operand.
        given = {x: tree_map_only(torch.Tensor, torch.detach, value) for x, value in zip(node.all_input_nodes, values)}
        named = {id(value): x for x, value in given.items() if isinstance(value, torch.Tensor)}
        memory = {storage(x) for value in given.values() for x in leaves(value)} - {None}
        args, kwargs = map_arg((node.args, node.kwargs), given.__getitem__)
        with _Noting(named, memory) as noting:
            try:
                function(*args, **kwargs)
            except Exception as error:  # whatever the function says of what it is given
                pass_on(error)
                return None
    return noting.calls
