"""The decomposition of `_weight_norm_interface_backward`, which torch has none for."""

from collections.abc import Callable

import torch
from torch import Tensor


def _backward(grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Gradients of v and g, where w = v * (g / norms) and `norms`, of the sizes of g, are the norms of v over all dimensions but `dim`.

    With s the sum of grad_w * v over the same dimensions: s / norms for g, and (g / norms) * (grad_w - v * s / norms**2) for v.
    """
    others = [i for i in range(saved_v.ndim) if i != dim % saved_v.ndim]
    v, g, norms = (x.to(saved_norms.dtype) for x in (saved_v, saved_g, saved_norms))
    grad = grad_w.to(norms.dtype)
    along = (grad * v).sum(others, keepdim=True) / norms
    grad_v = (g / norms) * (grad - v * (along / norms))
    return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)


DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable] = {
    torch.ops.aten._weight_norm_interface_backward.default: _backward,
}
