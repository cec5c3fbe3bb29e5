"""Indices out of range, as operators of a graph: which of them is the first, and the exception for it.

`bascule.first_outside` is compiled as all else; `bascule.check_index` looks at what it gives and raises.
`bascule.check_indexed_size` looks at sizes alone.
"""

from collections.abc import Sequence

import torch


class IndexOutOfRangeError(IndexError, RuntimeError):
    """An index from data that is not in its dimension: eager raises the one or the other, by the operator and by how tensors lie."""


NONE = torch.iinfo(torch.int64).max  # the place of no index

_library = torch.library.Library("bascule", "FRAGMENT")
_library.define("first_outside(Tensor index, SymInt first, SymInt end) -> (Tensor place, Tensor found)")
_library.define("check_indexed_size(Tensor index, SymInt size, str text) -> ()")
_library.define("check_index(Tensor place, Tensor found, SymInt[] sizes, str text) -> ()")


@torch.library.impl(_library, "first_outside", "CPU")
def first_outside(index: torch.Tensor, first: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first place, in row-major order, where `index` is not in [`first`, `end`), and the index there; `NONE` and 0 if it is everywhere.

    Two i64 tensors of no dimensions.
    """
    flat = index.reshape(-1).to(torch.int64)
    places = ((flat < first) | (flat >= end)).nonzero()
    place = places[0, 0] if len(places) else torch.tensor(NONE)
    return place.clone(), flat[place] if len(places) else torch.tensor(0)


@torch.library.impl(_library, "first_outside", "Meta")
def _meta(index: torch.Tensor, first: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
    place, found = (torch.empty((), dtype=torch.int64, device=index.device) for _ in range(2))
    return place, found


@torch.library.impl(_library, "check_index", "CPU")
def check_index(place: torch.Tensor, found: torch.Tensor, sizes: Sequence[int], text: str) -> None:
    """Raises `IndexOutOfRangeError` where there is an index at `place`. `text` tells of it as `{index}`, and of `{size}`, those of `sizes`."""
    if place.item() != NONE:
        raise IndexOutOfRangeError(text.format(index=found.item(), size="x".join(map(str, sizes))))


@torch.library.impl(_library, "check_indexed_size", "CompositeExplicitAutograd")
def check_indexed_size(index: torch.Tensor, size: int, text: str) -> None:
    """Raises `IndexOutOfRangeError` where there are indices, and none of them can be in range: `size` is 0. `text` tells of `{size}`."""
    if index.numel() and not size:
        raise IndexOutOfRangeError(text.format(size=size))


@torch.library.impl(_library, "check_index", "Meta")
def _nothing(place: torch.Tensor, found: torch.Tensor, sizes: Sequence[int], text: str) -> None:
    """The numbers are not there yet."""


__all__ = ["IndexOutOfRangeError", "check_index", "check_indexed_size", "first_outside"]
