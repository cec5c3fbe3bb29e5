"""A split graph as it runs, and what it calls: compiled graphs in a role each, operators, functions.

A role is settled by what JSON can say, so that a split graph that is loaded from disk or from a package is made as it was made at first.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any

import torch

from bascule.compat.tensors.pytree import treespec_loads

from ..boxed import Boxed
from ..memory.tensor_serialization import tensor_of
from .flex_attention_chunks import in_chunks
from .higher_order import below_autograd, structured
from .loading import load

_MODULES = ("torch", "operator", "_operator", "math")  # where functions come from that are the same in every process


class _NoKernels:
    """A split wrapper calls none itself."""

    addresses: dict[str, int] = {}


def load_split(source: str, constants: Sequence[Any], *, file: str | None = None) -> Boxed:
    """The function that runs a split graph; `source` is located, `file`: see `load`."""
    return load(source, _NoKernels(), constants, file=file)


def located(source: str, locations: Mapping[int, str]) -> str:
    """The module of a split wrapper, with the user's line for lines of it."""
    return f"{source}LOCATIONS = {dict(locations)!r}\n"


def _body(call: Boxed, *, single: bool) -> Callable[..., Any]:
    """The function that a higher-order operator calls: it returns what the graph does, a tuple or one value."""
    return structured(call, itemgetter(0) if single else tuple)


def _dense(call: Boxed, *, structure: str) -> Callable[..., Any]:
    """In place of a higher-order operator: it takes the operands and returns what the operator does."""
    return structured(call, treespec_loads(structure).unflatten)


def _chunks(call: Boxed, *, results: Sequence[Mapping[str, Any]], **settings: Any) -> Callable[..., Any]:
    """In place of an attention; `results`: what `told_of` tells of them."""
    return in_chunks(
        structured(call, tuple), **settings, results=[tensor_of({**x, "device": "meta"}, b"") for x in results]
    )


# Role of a compiled graph -> what the split wrapper calls, made from the graph and the settings of the role.
ROLES: Mapping[str, Callable[..., Any]] = {"part": lambda call: call, "body": _body, "dense": _dense, "chunks": _chunks}


def constant(
    told: Mapping[str, Any],
    graph: Callable[[Mapping[str, Any]], Boxed],
    tensor: Callable[[Mapping[str, Any]], torch.Tensor],
) -> Any:
    """Makes a constant of a split wrapper from its JSON; `graph` and `tensor` make those of what is told of them."""
    kind, settings = told["kind"], told["settings"]
    if kind in ROLES:
        return ROLES[kind](graph(told), **settings)
    match kind:
        case "tensor":
            return tensor(told["tensor"])
        case "operator":
            return operator(**settings)
        case "function":
            return function(**settings)
    raise ValueError(f"an unknown kind of constant, {kind}")


def operator(name: str, *, called: bool) -> Callable[..., Any]:
    """The higher-order operator `name`; `called`: as the wrapper calls it. Raises `AttributeError` for one that this process does not have."""
    found = getattr(torch.ops.higher_order, name)
    return below_autograd(found) if called else found


def path_of(value: Any) -> tuple[str, str] | None:
    """Module and name of a function of PyTorch's or Python's; None for anything else."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module.split(".")[0] not in _MODULES:
        return None
    return (module, name) if getattr(sys.modules.get(module), name, None) is value else None


def function(module: str, name: str) -> Any:
    """Imports the function that `path_of` named."""
    if module.split(".")[0] not in _MODULES:
        raise ValueError(f"{module} is no module of PyTorch's")
    return getattr(import_module(module), name)
