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

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from bascule.compat.tensors.fake_tensors import FakeTensor
from bascule.compat.tensors.pytree import tree_leaves

from ..dynamo_graphs.called_operators import Call, CalledOperators, WrittenMemory
from ..dynamo_graphs.constants import CPU, Constants
from ..dynamo_graphs.traced_values import TRACED, static_tensor, traced
from ..fx.operator_effects import keeps_order
from ..fx.storages import storage

ATTENTION = (torch.nn.functional.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention.default)
MASK, CAUSAL = 3, 5  # the places of `attn_mask` and `is_causal`

LINES = ("stack_trace", "nn_module_stack", "source_fn_stack")  # of a node's metadata: where the user's program made it


class _Graph(NamedTuple):
    """Knowledge of a graph's nodes."""

    called: CalledOperators
    memory: WrittenMemory
    constants: Constants


def simplify_masks(gm: GraphModule) -> int:
    """Takes constant masks from the attentions of `gm`, a graph of PyTorch functions, and lets the others be given without repetition;
    returns of how many."""
    found = [node for node in gm.graph.nodes if node.op == "call_function" and node.target in ATTENTION]
    if not found:
        return 0
    known = _known(gm, found)
    given = dict[Node, tuple[Node | None, bool]]()  # mask -> mask and `is_causal` instead
    changed = 0
    for node in found:
        arguments = _arguments(node)
        mask = arguments.get(MASK)
        if not isinstance(mask, Node) or arguments.get(CAUSAL, False) is not False:
            continue
        if mask not in given:
            given[mask] = _instead(mask, known)
        other, is_causal = given[mask]
        _set(node, MASK, "attn_mask", other)
        if is_causal:
            _set(node, CAUSAL, "is_causal", True)
        changed += other is not mask
    if changed:
        known.constants.drop(gm)
        gm.recompile()
    return changed


def _known(gm: GraphModule, attentions: list[Node]) -> _Graph:
    called = CalledOperators()
    memory = WrittenMemory(gm.graph, called)
    for node in attentions:
        memory.only_read(node)
    return _Graph(called, memory, Constants(gm, memory))


def _instead(mask: Node, known: _Graph) -> tuple[Node | None, bool]:
    """`attn_mask` and `is_causal` for attentions whose mask is `mask`."""
    value = known.constants.of(mask)
    kind = None if value is None else _kind(value)
    return (_unrepeated(mask, known), False) if kind is None else (None, kind == "causal")


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


def _unrepeated(mask: Node, known: _Graph) -> Node:
    """A mask that attention can take for `mask`: `mask` itself, or a node made where it is made."""
    whole = static_tensor(mask)
    if whole is None or known.memory.holds(whole):
        return mask
    found = _narrow_result(_narrow(mask), known)
    value = static_tensor(found)
    if value is None or value.dim() < 2 or value.stride(-1) == 1:
        return found
    column = _narrow(found, keeps_last=False)
    sizes = traced(column).shape
    if len(sizes) == value.dim() and sizes[-1] == 1:
        found = _made(mask, "expand", (column, *[-1] * (value.dim() - 1), value.shape[-1]))
    return _made(mask, "contiguous", (found,))


def _narrow(node: Node, keeps_last: bool = True) -> Node:
    """The tensor that a node repeats along dimensions: a view of less of the same memory. With `keeps_last`, not along the last one."""
    found = each = node
    while True:
        given = [y for x in each.all_input_nodes for y in ([x] if static_tensor(x) is not None else x.all_input_nodes)]
        source = next((x for x in given if _repeats(traced(each), static_tensor(x), keeps_last)), None)
        if source is None:
            return found
        each = source
        if traced(each).numel() < traced(found).numel():
            found = each


def _repeats(wide: torch.Tensor, one: torch.Tensor | None, keeps_last: bool) -> bool:
    """Whether `wide` is `one`, of two dimensions or more, repeated along some and along new ones before."""
    if one is None or not 2 <= one.dim() <= wide.dim() or (keeps_last and one.shape[-1] != wide.shape[-1]):
        return False
    if storage(one) is None or storage(one) != storage(wide):
        return False
    if (one.dtype, one.storage_offset()) != (wide.dtype, wide.storage_offset()):
        return False
    new = wide.dim() - one.dim()
    sizes, strides = (1,) * new + tuple(one.shape), (0,) * new + one.stride()
    return all(
        size == 1 or (size, stride) == (of_one, stride_of_one) or (of_one == 1 and not stride)
        for size, stride, of_one, stride_of_one in zip(wide.shape, wide.stride(), sizes, strides)
    )


def _narrow_result(node: Node, known: _Graph) -> Node:
    """A call that works on each element by itself, of what its operands repeat; or what it chooses, if that is the same for all elements."""
    whole, calls = static_tensor(node), known.called.of(node)
    values = [static_tensor(x) for x in node.all_input_nodes]
    if whole is None or not calls or any(value is None or known.memory.holds(value) for value in values):
        return node
    shown = _chosen(calls[-1], known)
    if shown is not None:
        one = traced(shown)
        if one.dtype == whole.dtype and one.dim() >= 2 and one.shape[-1] == whole.shape[-1]:
            return _narrow(shown)
    narrow = {x: _narrow(x) for x in node.all_input_nodes}
    if all(x is y for x, y in narrow.items()) or not all(map(_is_pointwise, calls)):
        return node
    args, kwargs = map_arg((node.args, node.kwargs), narrow.__getitem__)
    return _made(node, node.target, args, kwargs)


def _chosen(call: Call, known: _Graph) -> Node | None:
    """The node that `call` takes all elements from, where it chooses and its condition is a constant."""
    if call.operator is not torch.ops.aten.where.self or not all(isinstance(x, Node) for x in call.args[:2]):
        return None
    condition, shown = call.args[:2]
    value = known.constants.of(condition)
    return shown if value is not None and value.dtype == torch.bool and value.all() else None


def _is_pointwise(call: Call) -> bool:
    """Whether a call may be made once more, of operands that are not repeated: it takes elements one by one, or none."""
    takes = any(isinstance(x, Node | torch.Tensor) for x in tree_leaves((call.args, call.kwargs)))
    return not keeps_order(call.operator) and (not takes or torch.Tag.pointwise in call.operator.tags)


def _made(beside: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Node:
    """A call after `beside`, and after the last of the arguments that were made there."""
    graph, kind, kwargs = beside.graph, "call_method" if isinstance(target, str) else "call_function", kwargs or {}
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Node)]
    with graph.inserting_after(max((beside, *given))):
        made = graph.create_node(kind, target, args, kwargs)
    made.meta = {key: beside.meta[key] for key in LINES if key in beside.meta}
    values, named = map_arg((args, kwargs), traced)
    with next((traced(x).fake_mode for x in given if isinstance(traced(x), FakeTensor)), nullcontext()):
        value = (getattr(torch.Tensor, target) if isinstance(target, str) else target)(*values, **named)
    # AOTAutograd's cache takes a method's operand for a tensor only where the operand's node says what it is.
    made.meta |= {key: value for key in TRACED if key in beside.meta}
    return made
