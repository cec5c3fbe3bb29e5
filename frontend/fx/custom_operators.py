"""Operators that Python packages define with `torch.library.custom_op`: what of their Python decides how they are traced, as text.

How PyTorch keeps their functions is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import Any

from torch.fx import GraphModule

from bascule.compat.operators.custom_operators import OPDEFS
from bascule.compat.operators.schemas import OpOverload, OpOverloadPacket
from bascule.compat.tensors.pytree import tree_leaves

from .operator_effects import COMPUTE, registered_effect


def custom_operators(gm: GraphModule) -> list[str]:
    """The operators that `gm`, and the graphs that it calls, name and PyTorch does not define, as `namespace::name.overload`."""
    return sorted(f"{x._schema.name}.{x._overloadname}" for x in _custom(gm))


def registering_modules(gm: GraphModule) -> list[str]:
    """The modules that have defined the custom operators of `gm`, and of the graphs that it calls."""
    definitions = [OPDEFS.get(x._schema.name) for x in _custom(gm)]
    return sorted({definition._init_fn.__module__ for definition in definitions if definition is not None})


def _custom(gm: GraphModule) -> set[OpOverload]:
    graphs = [module.graph for module in gm.modules() if isinstance(module, GraphModule)]
    named = [
        x for graph in graphs for node in graph.nodes for x in (node.target, *tree_leaves([node.args, node.kwargs]))
    ]
    return {x for x in named if isinstance(x, OpOverload) and x.namespace not in COMPUTE}


def told_of_operator(target: OpOverload | OpOverloadPacket) -> str | None:
    """The schema of an operator, and the versions of the packages whose functions are its backward, its fake results and so on.

    None where they do not tell: the operator was defined in some other way, or by functions that no installed package has as they are (a script,
    a checkout, functions made by other functions).
    """
    packet = isinstance(target, OpOverloadPacket)
    definition = OPDEFS.get(target._qualified_op_name if packet else target._schema.name)
    if definition is None:
        return None
    overload = definition._opoverload
    if overload.py_kernels or not (packet or target is overload):
        return None
    versions = set[str]()
    for function in _functions(definition):
        version = _version_with(function)
        if version is None:
            return None
        versions.add(version)
    return f"{overload._schema} {registered_effect(overload)} {sorted(versions)}"


def _functions(definition: Any) -> Iterator[Any]:
    single = ("_init_fn", "_abstract_fn", "_setup_context_fn", "_backward_fn", "_vmap_fn")
    for name in single:
        function = getattr(definition, name)
        if function is not None:
            yield getattr(function, "formula", function)  # see `torch_patches/custom_op_gradients.py`
    yield from definition._torch_dispatch_fns.values()
    yield from getattr(definition, "_used_triton_kernels", ())  # no functions: such an operator is not told of


def _version_with(function: Any) -> str | None:
    """Name and version of the installed package that has `function`, a plain one, in one of its files."""
    if not isinstance(function, FunctionType) or function.__closure__ or hasattr(function, "__wrapped__"):
        return None
    name = function.__module__.partition(".")[0]
    place = _place(name)
    if place is None or not Path(function.__code__.co_filename).is_relative_to(place[1]):
        return None
    return f"{name} {place[0]}"


@cache
def _place(name: str) -> tuple[str, str] | None:
    """Version of the installed package `name`, and where packages are installed."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return found.version, str(found.locate_file(""))
