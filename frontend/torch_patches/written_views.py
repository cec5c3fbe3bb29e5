"""Views that custom operators write, described by where they lie when the operator is called.

A functional graph has new values for tensors that are written, and these may begin elsewhere than the tensor in eager, with other strides:
`slice_scatter` and `add` give what begins at 0. PyTorch describes a view that an operator writes by sizes, strides and offset as they were when
the view was made, so that it would be taken of another place of the new value (seen in 2.13). Inside `written_views_right` a view is
described by what it is of the value that its base has now.

The function that writes descriptions is private to PyTorch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from bascule.compat.tensors.functional_tensors import FunctionalTensor, auto_functionalize, value_of

from .patch import attribute

_theirs = auto_functionalize.write_view_information_to_args
_SLICES = ("slice_dim", "slice_start", "slice_end")


def _described(names: list[str], types: list[Any], kwargs: dict[str, Any], bases: dict[str, Any]) -> None:
    """Writes into `kwargs` how each of the arguments `names` is a view of its base."""
    given = {name: kwargs[name] for name in names}
    _theirs(names, types, kwargs, bases)
    for prefix, x in _written(given):
        base = auto_functionalize.get_base(x)
        if not (isinstance(x, FunctionalTensor) and isinstance(base, FunctionalTensor)):
            continue
        value = value_of(x)
        moved = places(value) != places(x) or places(value_of(base)) != places(base)
        if not moved and (f"{prefix}_slice_dim" not in kwargs or str(base.storage_offset()) == "0"):
            continue
        for key in ("alias", *_SLICES):
            kwargs.pop(f"{prefix}_{key}", None)
        size, stride, offset = value.size(), value.stride(), value.storage_offset()
        kwargs |= {f"{prefix}_size": size, f"{prefix}_stride": stride, f"{prefix}_storage_offset": offset}


def _written(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each written tensor, and what the keys of its description begin with."""
    for name, x in given.items():
        if isinstance(x, Sequence):
            yield from ((f"_{name}_{number}", each) for number, each in enumerate(x) if each is not None)
        elif x is not None:
            yield f"_{name}", x


def places(x: torch.Tensor) -> list[str]:
    """By the names of symbols, which are no guards."""
    return [*map(str, (*x.shape, *x.stride(), x.storage_offset()))]


written_views_right = attribute(auto_functionalize, "write_view_information_to_args", _theirs, _described)
