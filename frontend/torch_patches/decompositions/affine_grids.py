"""Affine grids (`F.affine_grid`), and their gradient, of any sizes.

PyTorch's decomposition makes a constant for a dimension of one sample, which the trace of a training step refuses; its gradient takes no sizes
that are symbols (seen in 2.14). Inside `affine_grids` the gradient is ours.

How PyTorch keeps such decompositions is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.dispatch import DispatchKey
from bascule.compat.operators.schemas import OpOverload

from ..patch import python_kernel

HALVES = (torch.float16, torch.bfloat16)


def _line(points: Any, like: Tensor, align_corners: bool) -> Tensor:
    """The places of `points` samples along one dimension, between -1 and 1. One lies in the middle."""
    numbers = torch.arange(points, dtype=like.dtype, device=like.device)
    return (2 * numbers - (points - 1)) / (torch.sym_max(points - 1, 1) if align_corners else points)


def _rows(space: Sequence[Any], like: Tensor, align_corners: bool) -> Tensor:
    """A row a point: its place, x first, and 1."""
    places = torch.meshgrid([_line(points, like, align_corners) for points in space], indexing="ij")[::-1]
    return torch.stack([*places, torch.ones_like(places[0])], -1).reshape(-1, len(space) + 1)


def _grid(matrices: Tensor, size: Sequence[Any], align_corners: bool) -> Tensor:
    """Each row times the transpose of each sample's matrix."""
    torch._check(len(size) in (4, 5), lambda: "affine_grid_generator needs 4d (spatial) or 5d (volumetric) inputs.")
    samples, _, *space = size
    exact = matrices.float() if matrices.dtype in HALVES else matrices
    grid = (_rows(space, exact, align_corners).unsqueeze(-1) * exact.mT.unsqueeze(1)).sum(-2)
    return grid.reshape(samples, *space, len(space)).to(matrices.dtype)


def _gradient(gradient: Tensor, size: Sequence[Any], align_corners: bool) -> Tensor:
    samples, _, *space = size
    exact = gradient.float() if gradient.dtype in HALVES else gradient
    rows = _rows(space, exact, align_corners)
    return (exact.reshape(samples, rows.shape[0], len(space)).mT @ rows).to(gradient.dtype)


DECOMPOSITIONS: dict[OpOverload, Callable] = {torch.ops.aten.affine_grid_generator.default: _grid}

affine_grids = python_kernel(
    torch.ops.aten.affine_grid_generator_backward.default, DispatchKey.CompositeImplicitAutograd, _gradient
)
