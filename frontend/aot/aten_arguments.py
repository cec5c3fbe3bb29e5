"""Arguments that a decomposition takes and ATen's own kernel refuses: the operator stays whole, and is refused where it runs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.schemas import OpOverload

aten = torch.ops.aten


def _long_targets(x: Tensor, target: Tensor, *_: Any) -> bool:
    return target.dtype in (torch.int64, torch.uint8)


def _like_sizes(x: Tensor, y: Tensor, *_: Any) -> bool:
    return x.dim() >= y.dim() and torch.broadcast_shapes(x.shape, y.shape) == x.shape


def _one_dtype(x: Tensor, y: Tensor, *_: Any) -> bool:
    return x.dtype == y.dtype


# operator -> whether its kernel takes the arguments
TAKEN: dict[OpOverload, Callable[..., bool]] = {
    aten.nll_loss_forward.default: _long_targets,
    aten.nll_loss2d_forward.default: _long_targets,
    aten.soft_margin_loss.default: _like_sizes,
    aten.mv.default: _one_dtype,
}


def where_taken(operator: OpOverload, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """`decomposition`, for arguments that ATen takes."""

    def decompose(*args: Any, **kwargs: Any) -> Any:
        return decomposition(*args, **kwargs) if TAKEN[operator](*args) else NotImplemented

    return decompose
