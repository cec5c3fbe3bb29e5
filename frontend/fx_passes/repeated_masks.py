"""Masks of attention that repeat themselves, or whose neighbours lie apart: handed over once, and with neighbours side by side.

The kernels of PyTorch that take a mask refuse one whose last dimension has another stride than 1 (a bias of positions, made with the heads
last); what is left then are products and a softmax in f32. Attention repeats a mask itself, so that a bias beside a mask that was expanded
over the batch is computed, and read, once for all of it.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

TRACED = ("example_value", "val")  # of a node's metadata: the fake value, as Dynamo and as AOTAutograd call it
LINES = ("stack_trace", "nn_module_stack", "source_fn_stack")  # of a node's metadata: where the user's program made it


def unrepeated(
    mask: Node, constant: Callable[[Node], torch.Tensor | None], is_written: Callable[[torch.Tensor], bool]
) -> Node:
    """A mask that attention can take for `mask`, a node of a graph of PyTorch functions: `mask` itself, or a node made where it is made.

    `constant` tells what a node is at every call, if that is known; `is_written`, whether somebody writes to the memory of a tensor.
    """
    whole = value_of(mask)
    if whole is None or is_written(whole):
        return mask
    found = _narrow(mask)
    if found.target is torch.where and len(found.args) == 3 and not found.kwargs:
        found = _narrow_choice(found, constant, is_written)
    value = value_of(found)
    if value is None:
        return mask if found is mask else _made(mask, "contiguous", found)
    if value.dim() < 2 or value.stride(-1) == 1:
        return found
    if found.op == "call_method" and found.target == "expand":  # of one column
        column = value_of(found.args[0])
        if column is not None and column.dim() == value.dim():
            found = _made(mask, "expand", found.args[0], *[-1] * (value.dim() - 1), value.shape[-1])
    return _made(mask, "contiguous", found)


def _narrow(node: Node) -> Node:
    """The tensor that a node repeats along dimensions before the last."""
    while node.op == "call_method" and node.target == "expand":
        source, wide = value_of(node.args[0]), value_of(node)
        if source is None or wide is None or source.dim() < 2 or source.shape[-1] != wide.shape[-1]:
            break
        node = node.args[0]  # type: ignore[assignment]
    return node


def _narrow_choice(
    choice: Node, constant: Callable[[Node], torch.Tensor | None], is_written: Callable[[torch.Tensor], bool]
) -> Node:
    """A `torch.where`, of what its operands repeat; or what it chooses, if that is the same for all elements."""
    whole, values = value_of(choice), [value_of(x) for x in choice.args]
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
    values = [traced(x) if isinstance(x, Node) else x for x in arguments]
    if any(isinstance(x, Node) and value is None for x, value in zip(arguments, values)):
        return made
    with next((x.fake_mode for x in values if isinstance(x, FakeTensor)), nullcontext()):
        value = (getattr(torch.Tensor, target) if isinstance(target, str) else target)(*values)
    # AOTAutograd's cache takes a method's operand for a tensor only where the operand's node says what it is.
    made.meta |= {key: value for key in TRACED if key in beside.meta}
    return made


def traced(node: Node) -> Any:
    """The value that a node was traced with; None if it does not say."""
    return next((node.meta[key] for key in TRACED if key in node.meta), None)


def value_of(node: Any) -> torch.Tensor | None:
    """The fake tensor of static sizes that a node was traced with."""
    value = traced(node) if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return None
    return value
