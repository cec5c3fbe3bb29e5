"""Views among a graph's results as autograd sees them: what `_is_view()`, `_base` and the version counter tell a user."""

import operator
from collections.abc import Collection

import torch
from bascule.dialect.ir.functions import DETACHED, SAVED, VIEW, VIEW_OF_DETACHED
from torch.fx import Node

from .storages import is_view, storage, storage_of

DETACH = torch.ops.aten.detach.default


def returned_as(node: Node) -> str | None:
    """The relation of the tensor that `node` stands for to the one that its memory was made for (`bascule.returned_as`); None: it is that one.

    A view of a view is one of what the first was taken of; a detached tensor is no view, and shares the version counter.
    """
    view = False
    while (source := _source(node)) is not None:
        if node.target == DETACH:
            return VIEW_OF_DETACHED if view else DETACHED
        view, node = True, source
    return VIEW if view else None


def saved_as(node: Node, known: Collection[int | None]) -> str | None:
    """The same of a tensor that is saved for the backward: where the user has its memory too (`known`: the storages of what he gave and gets), a
    backward is to see that it was written."""
    return SAVED if node.op == "call_function" and storage_of(node) in known else None


def _source(node: Node) -> Node | None:
    """The tensor that `node` views, or detaches."""
    source = node.args[0] if node.args else None
    if node.target is operator.getitem and isinstance(source, Node) and source.args:  # one of several views
        whole = source.args[0]
        alike = isinstance(whole, Node) and storage(node.meta.get("val")) not in (None, storage(None))
        return whole if alike and storage(node.meta["val"]) == storage(whole.meta.get("val")) else None
    return source if isinstance(source, Node) and is_view(node) else None
