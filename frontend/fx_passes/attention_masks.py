"""Masks of attention that are the same at every call: no mask where they let everything pass, `is_causal` where each query sees the keys up to
its own.

A model that does not ask what is in its mask, since it is being traced, hands attention one that it makes of `arange`s and comparisons. An
attention that is told what the mask comes to takes a faster kernel (cuDNN's, flash attention's), reads no mask, and leaves out the half that
is causally hidden. The choice among kernels is PyTorch's own, made after this, as is the gradient.

Other masks are handed over without what they repeat, and with neighbours side by side. The kernels of PyTorch that take a mask refuse one
whose last dimension has another stride than 1 (a bias of positions, made with the heads last); what is left then are products and a softmax
in f32. Attention repeats a mask itself, so that a bias beside a mask that was expanded over the batch is computed, and read, once for all of it.

A graph of Dynamo's is looked at, before autograd. The part of it that makes a mask from nothing but numbers is run, on the CPU.
"""

import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from bascule.compat.operators.dispatch import without_dispatch_modes
from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload
from bascule.compat.tensors.fake_tensors import FakeTensor
from bascule.compat.tensors.pytree import tree_leaves

from ..fx.storages import storage

ATTENTION = (torch.nn.functional.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention.default)
MASK, CAUSAL = 3, 5  # the places of `attn_mask` and `is_causal`
LARGEST = 1 << 27  # bytes of a tensor that is made here

CPU = torch.device("cpu")

MADE = {torch.arange, torch.full, torch.ones, torch.zeros}  # on a device that is given
COMPUTED = {
    *(operator.add, operator.sub, operator.mul, operator.neg, operator.floordiv, operator.mod),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.and_, operator.or_, operator.xor, operator.invert, operator.getitem),
    *(torch.add, torch.sub, torch.mul, torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge),
    *(torch.logical_and, torch.logical_or, torch.logical_not, torch.bitwise_and, torch.bitwise_or),
    *(torch.where, torch.tril, torch.triu, torch.diff, torch.cumsum, torch.masked_fill),
    *(torch.unsqueeze, torch.reshape),
}
METHODS = {
    *("expand", "permute", "reshape", "squeeze", "transpose", "unsqueeze", "view"),
    *("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not"),
    *("cumsum", "diff", "masked_fill", "new_full", "new_ones", "new_zeros", "tril", "triu", "where"),
    *("bool", "clone", "contiguous", "float", "int", "long", "to"),
}
VIEWS = {"expand", "permute", "squeeze", "transpose", "unsqueeze", "view"}
WRITING = {
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
    *(operator.iand, operator.ior, operator.ixor, operator.setitem),
}
TRACED = ("example_value", "val")  # of a node's metadata: the fake value, as Dynamo and as AOTAutograd call it
LINES = ("stack_trace", "nn_module_stack", "source_fn_stack")  # of a node's metadata: where the user's program made it


def simplify_masks(gm: GraphModule) -> int:
    """Takes constant masks from the attentions of `gm`, a graph of PyTorch functions, and lets the others be given without repetition;
    returns of how many."""
    found = [node for node in gm.graph.nodes if node.op == "call_function" and node.target in ATTENTION]
    if not found:
        return 0
    values = _Values(gm)
    others = dict[Node, Node]()
    changed = 0
    for node in found:
        arguments = _arguments(node)
        mask = arguments.get(MASK)
        if not isinstance(mask, Node) or arguments.get(CAUSAL, False) is not False:
            continue
        value = values.of(mask)
        kind = None if value is None else _kind(value)
        if kind is not None:
            _set(node, MASK, "attn_mask", None)
            if kind == "causal":
                _set(node, CAUSAL, "is_causal", True)
        else:
            if mask not in others:
                others[mask] = _unrepeated(mask, values.of, values.is_written)
            _set(node, MASK, "attn_mask", others[mask])
        changed += kind is not None or others[mask] is not mask
    if changed:
        values.drop(gm)
        gm.recompile()
    return changed


def _arguments(node: Node) -> dict[int, Any]:
    named = {MASK: "attn_mask", CAUSAL: "is_causal"}
    given = {place: node.kwargs[name] for place, name in named.items() if name in node.kwargs}
    return given | {place: node.args[place] for place in named if place < len(node.args)}


def _set(node: Node, place: int, name: str, value: Any) -> None:
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


def _kind(mask: torch.Tensor) -> str | None:
    """ "none" for a mask that hides nothing, "causal" for one of squares that hides the keys after each query; None for others."""
    if mask.dim() < 2 or not mask.numel():
        return None
    # What is repeated is looked at once.
    mask = mask[tuple(slice(0, 1) if not stride else slice(None) for stride in mask.stride()[:-2])]
    if mask.dtype == torch.bool:
        shown, hidden = mask, ~mask
    elif mask.is_floating_point():
        shown, hidden = mask == 0, mask <= torch.finfo(mask.dtype).min
    else:
        return None
    if shown.all():
        return "none"
    rows, columns = mask.shape[-2:]
    if rows != columns or rows == 1:
        return None
    seen = torch.ones(rows, columns, dtype=torch.bool, device=CPU).tril()
    return "causal" if torch.where(seen, shown, hidden).all() else None


class _Values:
    """The values of nodes that are the same at every call, as tensors of the CPU."""

    def __init__(self, gm: GraphModule) -> None:
        self.known: dict[Node, torch.Tensor | None] = {}
        self.written = {x for node in gm.graph.nodes if _may_write(node) for x in _storages(node)}

    def of(self, node: Node) -> torch.Tensor | None:
        """The value; None where it is not known, or not looked at because of its size."""
        waiting = [node]
        while waiting:  # a long chain would be too deep for recursion
            last = waiting[-1]
            missing = [x for x in last.all_input_nodes if x not in self.known] if self._is_pure(last) else []
            if missing:
                waiting.extend(missing)
            elif waiting.pop() not in self.known:
                self.known[last] = self._run(last) if self._is_pure(last) else None
        return self.known[node]

    def drop(self, gm: GraphModule) -> None:
        """Removes what has been run and is not used any more."""
        for node in reversed(gm.graph.nodes):
            if self.known.get(node) is not None and not node.users:
                gm.graph.erase_node(node)

    def _is_pure(self, node: Node) -> bool:
        """Whether a node gives one tensor, made of what it is given, into whose memory nobody writes."""
        known = {"call_function": MADE | COMPUTED, "call_method": METHODS}.get(node.op, ())
        value = _value_of(node)
        if node.target not in known or value is None or value.requires_grad or "out" in node.kwargs:
            return False
        if node.target not in VIEWS and value.numel() * value.element_size() > LARGEST:
            return False
        return not self.is_written(value)

    def is_written(self, value: torch.Tensor) -> bool:
        """Whether somebody writes to the memory of a tensor, or may."""
        place = storage(value)
        return place is None or not self.written.isdisjoint((place, None))

    def _run(self, node: Node) -> torch.Tensor | None:
        if any(self.known[x] is None for x in node.all_input_nodes):
            return None
        args, kwargs = map_arg((node.args, node.kwargs), self.known.__getitem__)
        args = [CPU if _names_device(node, x) else x for x in args]
        if "device" in kwargs or node.target in MADE:
            kwargs = {**kwargs, "device": CPU}
        call: Any = getattr(torch.Tensor, node.target) if isinstance(node.target, str) else node.target
        with without_dispatch_modes(), torch.no_grad():
            try:
                return call(*args, **kwargs)
            except RuntimeError:  # a dtype that the operator does not have on a CPU
                return None


def _names_device(node: Node, argument: Any) -> bool:
    return isinstance(argument, torch.device) or (node.target == "to" and isinstance(argument, str))


def _storages(node: Node) -> list[int | None]:
    """The storages of a node's operands; None for one that is not known."""
    values = [_traced(x) for x in node.all_input_nodes]
    return [storage(x) for x in tree_leaves(values) if isinstance(x, torch.Tensor)]


def _may_write(node: Node) -> bool:
    """Whether a node may write into an operand. A graph of Dynamo's has functions of all kinds; most tell it by their names."""
    target, name = node.target, getattr(node.target, "__name__", "")
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if isinstance(target, str):
        return node.op != "call_method" or (target.endswith("_") and not target.endswith("__"))
    if isinstance(target, OpOverload):
        return target._schema.is_mutable
    if target in COMPUTED or target in ATTENTION:
        return "out" in node.kwargs
    switched = any(x is True for x in (*node.args, *node.kwargs.values()))  # as `relu(x, inplace=True)`
    of_a_higher_order = isinstance(target, HigherOrderOperator)
    return of_a_higher_order or target in WRITING or name.endswith("_") or switched or "out" in node.kwargs


def _unrepeated(
    mask: Node, constant: Callable[[Node], torch.Tensor | None], is_written: Callable[[torch.Tensor], bool]
) -> Node:
    """A mask that attention can take for `mask`, a node of a graph of PyTorch functions: `mask` itself, or a node made where it is made.

    `constant` tells what a node is at every call, if that is known; `is_written`, whether somebody writes to the memory of a tensor.
    """
    whole = _value_of(mask)
    if whole is None or is_written(whole):
        return mask
    found = _narrow(mask)
    if found.target is torch.where and len(found.args) == 3 and not found.kwargs:
        found = _narrow_choice(found, constant, is_written)
    value = _value_of(found)
    if value is None:
        return mask if found is mask else _made(mask, "contiguous", found)
    if value.dim() < 2 or value.stride(-1) == 1:
        return found
    if found.op == "call_method" and found.target == "expand":  # of one column
        column = _value_of(found.args[0])
        if column is not None and column.dim() == value.dim():
            found = _made(mask, "expand", found.args[0], *[-1] * (value.dim() - 1), value.shape[-1])
    return _made(mask, "contiguous", found)


def _narrow(node: Node) -> Node:
    """The tensor that a node repeats along dimensions before the last."""
    while node.op == "call_method" and node.target == "expand":
        source, wide = _value_of(node.args[0]), _value_of(node)
        if source is None or wide is None or source.dim() < 2 or source.shape[-1] != wide.shape[-1]:
            break
        node = node.args[0]  # type: ignore[assignment]
    return node


def _narrow_choice(
    choice: Node, constant: Callable[[Node], torch.Tensor | None], is_written: Callable[[torch.Tensor], bool]
) -> Node:
    """A `torch.where`, of what its operands repeat; or what it chooses, if that is the same for all elements."""
    whole, values = _value_of(choice), [_value_of(x) for x in choice.args]
    if whole is None or any(isinstance(x, Node) and (v is None or is_written(v)) for x, v in zip(choice.args, values)):
        return choice
    condition, shown, _ = choice.args
    known = constant(condition) if isinstance(condition, Node) else None
    if known is not None and known.dtype == torch.bool and known.all():
        one = values[1]
        if one is not None and one.dtype == whole.dtype and one.dim() >= 2 and one.shape[-1] == whole.shape[-1]:
            return _narrow(shown)  # type: ignore[arg-type]
    narrow = [_narrow(x) if isinstance(x, Node) else x for x in choice.args]
    if narrow == [*choice.args]:
        return choice
    return _made(choice, torch.where, *narrow)


def _made(beside: Node, target: Any, *arguments: Any) -> Node:
    """A call after `beside`, and after the last of the arguments that were made there."""
    graph, kind = beside.graph, "call_method" if isinstance(target, str) else "call_function"
    last = max((beside, *(x for x in arguments if isinstance(x, Node))))
    with graph.inserting_after(last):
        made = graph.create_node(kind, target, arguments)
    made.meta = {key: beside.meta[key] for key in LINES if key in beside.meta}
    values = [_traced(x) if isinstance(x, Node) else x for x in arguments]
    if any(isinstance(x, Node) and value is None for x, value in zip(arguments, values)):
        return made
    with next((x.fake_mode for x in values if isinstance(x, FakeTensor)), nullcontext()):
        value = (getattr(torch.Tensor, target) if isinstance(target, str) else target)(*values)
    # AOTAutograd's cache takes a method's operand for a tensor only where the operand's node says what it is.
    made.meta |= {key: value for key in TRACED if key in beside.meta}
    return made


def _traced(node: Node) -> Any:
    """The value that a node was traced with; None if it does not say."""
    return next((node.meta[key] for key in TRACED if key in node.meta), None)


def _value_of(node: Any) -> torch.Tensor | None:
    """The fake tensor of static sizes that a node was traced with."""
    value = _traced(node) if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return None
    return value
