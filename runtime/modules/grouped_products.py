"""Grouped products of any float as an operator of a graph: `bascule.grouped_mm`. PyTorch's `_grouped_mm` is traced in bf16 alone, and leaves
rows after the last group as they were.
"""

import torch

_library = torch.library.Library("bascule", "FRAGMENT")
_library.define("grouped_mm(Tensor x, Tensor y, Tensor offsets) -> Tensor")


@torch.library.impl(_library, "grouped_mm", "CompositeExplicitAutograd")
def grouped_mm(x: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The products of groups that end at the `offsets` (G): of rows of `x` (M, K) by matrices of `y` (G, K, N), with zeros for rows after the
    last group; or of columns of `x` (M, K) by rows of `y` (K, N), a matrix each (G, M, N). The host waits for the offsets."""
    result, first = torch.zeros_like(_result(x, y, offsets)), 0
    for group, end in enumerate(offsets.tolist()):
        if y.dim() == 3:
            result[first:end] = x[first:end] @ y[group]
        else:
            result[group] = x[:, first:end] @ y[first:end]
        first = end
    return result


@torch.library.impl(_library, "grouped_mm", "Meta")
def _result(x: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    sizes = (x.shape[0], y.shape[2]) if y.dim() == 3 else (offsets.shape[0], x.shape[0], y.shape[1])
    return x.new_empty(sizes)
