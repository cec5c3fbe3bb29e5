"""Arguments that a decomposition takes and ATen's own kernel refuses: the operator stays whole, and is refused where it runs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.pytree import tree_leaves

from ..fx.trace_context import known

aten = torch.ops.aten


def _targets(x: Tensor, target: Tensor, weight: Tensor | None, *_: Any, **__: Any) -> bool:
    return target.dtype in (torch.int64, torch.uint8) and (weight is None or weight.dtype == x.dtype)


def _like_sizes(x: Tensor, y: Tensor, *_: Any, **__: Any) -> bool:
    return x.dim() >= y.dim() and torch.broadcast_shapes(x.shape, y.shape) == x.shape


def _one_dtype(*args: Any, **_: Any) -> bool:
    """Whether all tensors have one. Decompositions promote others otherwise than ATen, which refuses them, or lets those of some dimension
    decide."""
    return len({x.dtype for x in tree_leaves(args) if isinstance(x, Tensor)}) <= 1


def _sorted_dtypes(x: Tensor | complex, y: Tensor | complex, **_: Any) -> bool:
    return all(not isinstance(z, Tensor) or (z.dtype != torch.bool and not z.is_complex()) for z in (x, y))


def _of_rows(x: Tensor, matrix: Tensor, *_: Any, **factors: complex) -> bool:
    """The decomposition broadcasts `x`, does not look at it where `beta` is 0, and drops the imaginary part of a result that is to be real."""
    real = x.is_complex() or not any(isinstance(factor, complex) for factor in factors.values())
    return real and x.dim() <= 1 and (known(x.numel() == 1) or known(x.numel() == matrix.shape[0]))


def _floats(x: Tensor, *_: Any, **__: Any) -> bool:
    return x.dtype.is_floating_point or x.dtype.is_complex


def _real_floats(x: Tensor, *_: Any, **__: Any) -> bool:
    return x.dtype.is_floating_point


def _numbers(*args: Any, **_: Any) -> bool:
    """Whether all tensors have one dtype, other than that of booleans."""
    return _one_dtype(*args) and args[0].dtype != torch.bool


def _positive(x: Tensor, p: int) -> bool:
    return p >= 1


def _parameters(x: Tensor, *rest: Any, **_: Any) -> bool:
    """Parameters and statistics of a normalization are of the dtype of `x`, or all in f32 beside 16 bits."""
    dtypes = {y.dtype for y in rest if isinstance(y, Tensor)}
    return dtypes <= {x.dtype} or (dtypes == {torch.float32} and x.dtype in (torch.bfloat16, torch.float16))


def _statistics(x: Tensor, *rest: Any, **_: Any) -> bool:
    """Those of a batch normalization have a number a channel."""
    return _parameters(x, *rest) and all(y.dim() == 1 for y in rest if isinstance(y, Tensor))


# operator -> whether its kernel takes the arguments
_TAKEN: dict[OpOverload, Callable[..., bool]] = {
    aten.nll_loss_forward.default: _targets,
    aten.nll_loss2d_forward.default: _targets,
    aten.soft_margin_loss.default: _like_sizes,
    aten.mv.default: _numbers,
    aten.dot.default: _numbers,
    aten.vdot.default: _numbers,
    aten.trace.default: _numbers,
    aten.glu.default: _real_floats,
    aten.mse_loss.default: _real_floats,
    aten.smooth_l1_loss.default: _real_floats,
    aten.linalg_cross.default: _numbers,
    aten._softmax.default: _floats,
    aten._log_softmax.default: _floats,
    aten.addmv.default: _of_rows,
    aten.block_diag.default: _one_dtype,
    aten.isin.Tensor_Tensor: _sorted_dtypes,
    aten.isin.Tensor_Scalar: _sorted_dtypes,
    aten.isin.Scalar_Tensor: _sorted_dtypes,
    aten.mvlgamma.default: _positive,
}


def condition(operator: OpOverload) -> Callable[..., bool] | None:
    """Whether the kernel of `operator` takes arguments, as a function of them; None: it takes those that a decomposition does."""
    named = {argument.name for argument in operator._schema.arguments}
    if {"input", "weight", "bias"} <= named and {"eps", "epsilon"} & named:
        return _statistics if "running_mean" in named else _parameters
    return _TAKEN.get(operator)


def where_taken(taken: Callable[..., bool], decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """`decomposition`, for arguments that ATen takes."""

    def decompose(*args: Any, **kwargs: Any) -> Any:
        return decomposition(*args, **kwargs) if taken(*args, **kwargs) else NotImplemented

    return decompose
