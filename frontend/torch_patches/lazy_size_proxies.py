"""Arithmetic of symbolic sizes that nobody asked for, kept out of the graph that is traced.

Whenever a `FunctionalTensor` with symbolic sizes is made, PyTorch computes its number of elements and which layouts it has, and writes each
multiplication and comparison of that into the graph: nine nodes an operator, which are all removed afterwards. Inside
`size_proxies_on_demand` such a node is only made when something uses it.

How PyTorch puts that off is private to it. Checked on torch 2.11 to 2.14.
"""

from typing import Any

from torch.fx.experimental.proxy_tensor import maybe_enable_thunkify

from bascule.compat.tensors.functional_tensors import FunctionalTensor

from .patch import Patch

_theirs = FunctionalTensor.__new__


def _new(cls: type[FunctionalTensor], elem: Any, *args: Any, **kwargs: Any) -> FunctionalTensor:
    if not elem._has_symbolic_sizes_strides:
        return _theirs(cls, elem, *args, **kwargs)
    with maybe_enable_thunkify():
        return _theirs(cls, elem, *args, **kwargs)


def _make() -> None:
    FunctionalTensor.__new__ = _new  # type: ignore[method-assign]


def _undo() -> None:
    FunctionalTensor.__new__ = _theirs  # type: ignore[method-assign]


size_proxies_on_demand = Patch(_make, _undo)
