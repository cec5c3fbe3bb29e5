"""The decompositions that AOTAutograd applies: what has no rule of its own becomes operators that have one.

An operator with a rule is never decomposed: a rule builds a composite operator for a tenth of what tracing its parts costs, and the
operators that stay whole for ATen have rules too.
The tables are PyTorch's. It has none for the backward of a weight norm, none for random numbers of a state that is an input
(`rngprims.philox_rand`), and one that loses NaN (the backward of `smooth_l1_loss`): those stand here. Those of normalizations round what they
save (`norm_statistics.py`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.decompositions import decomposition_tables
from bascule.compat.operators.schemas import OpOverload

from ..conversion.registry import load_rules
from ..fx_passes import batch_norm
from ..torch_patches import fake_results
from ..torch_patches.decompositions import affine_grids, multilabel_margin_loss
from . import aten_arguments, fused_optimizers, norm_statistics

aten = torch.ops.aten

fake_results.correct()  # before anything is traced

# Beyond the core decompositions: composite operators that torch has a decomposition for and its core set keeps whole.
_MORE = (
    aten._adaptive_avg_pool2d,
    aten._batch_norm_no_update,
    aten._batch_norm_with_update,
    aten._batch_norm_with_update_functional,
    aten._fused_dropout,
    aten._log_softmax,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._softmax,
    aten.adaptive_max_pool2d,
    aten.adaptive_max_pool3d,
    aten.addmv,
    aten.alpha_dropout,
    aten.batch_norm_backward,
    aten.bucketize,
    aten.cauchy,
    aten.constant_pad_nd,
    aten.diagonal_scatter,
    aten.dist,
    aten.elu,
    aten.embedding,
    aten.exponential,
    aten.geometric,
    aten.grid_sampler_2d,
    aten.hardtanh,
    aten.index_select,
    aten.leaky_relu,
    aten.lift,
    aten.lift_fresh,
    aten.linalg_vector_norm,
    aten.log_normal,
    aten.max_pool2d_with_indices,
    aten.max_pool2d_with_indices_backward,
    aten.max_pool3d_with_indices,
    aten.narrow_copy,
    aten.native_batch_norm,
    aten.native_dropout,
    aten.native_group_norm,
    aten.native_layer_norm,
    aten.new_empty_strided,
    aten.normal,
    aten.rrelu_with_noise_backward,
    aten.slice_scatter,
    aten.square,
    aten.tril_indices,
    aten.triu_indices,
    aten.unbind_copy,
    aten.uniform,
    aten.upsample_bicubic2d,
    aten.upsample_bilinear2d,
    aten.upsample_nearest1d,
    aten.upsample_nearest2d,
    aten.upsample_nearest3d,
    aten.upsample_trilinear3d,
    aten.var,
    aten.var_mean,
    aten.view_copy,
)

# Decomposed although there are rules: between their parts the partitioner finds what is small (a row's maximum and sum), and saves that for the
# backward instead of a result as large as the input; or what stands for two (the normalized row for the row and its mean).
_ALWAYS = (aten._log_softmax.default, aten._softmax.default, aten.native_layer_norm_backward.default)

_MEAN = 1  # of the reductions of ATen's losses
_STREAM = -0x61C8864680B583EB  # the golden ratio of 2**64: neighbouring offsets of one seed are streams far apart
_OFFSETS = 4  # what an operator adds to the offset; a generator takes multiples of 4


def _weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Gradients of v and g, where w = v * (g / norms) and `norms`, of the sizes of g, are the norms of v over all dimensions but `dim`.

    With s the sum of grad_w * v over the same dimensions: s / norms for g, and (g / norms) * (grad_w - v * s / norms**2) for v.
    """
    others = [i for i in range(saved_v.ndim) if i != dim % saved_v.ndim]
    v, g, norms = (x.to(saved_norms.dtype) for x in (saved_v, saved_g, saved_norms))
    grad = grad_w.to(norms.dtype)
    along = (grad * v).sum(others, keepdim=True) / norms
    grad_v = (g / norms) * (grad - v * (along / norms))
    return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)


def _philox_rand(
    size: Sequence[Any],
    seed: Tensor,
    offset: Tensor,
    stride: Sequence[int] | None = None,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Numbers from 0 to 1, the same for the same state; and how far the state goes on. `seed` and `offset`: int64, of no dimensions.

    AOTAutograd's `config.functionalize_rng_ops` calls it: AOTAutograd gives such a graph the state of the GPU's generator, and sets the
    generator to the offset that the graph returns.
    """
    stream = (seed + offset * _STREAM).to(device)
    numbers = torch.ops.prims.inductor_random(list(size), stream, "rand")
    return numbers.to(dtype or torch.float32), torch.full((), _OFFSETS, dtype=torch.int64, device=seed.device)


def _smooth_l1_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """PyTorch's own takes NaN for a large difference, of no sign: its slope would be 0, where eager's is NaN."""
    wide = torch.promote_types(x.dtype, torch.float32)
    difference = x.to(wide) - target.to(wide)
    scaled = grad.to(wide) / x.numel() if reduction == _MEAN else grad.to(wide)
    slope = torch.where(difference.abs() >= beta, torch.sign(difference), difference / beta)
    return (scaled * slope).to(x.dtype)


_OWN: dict[OpOverload, Callable] = {
    aten.smooth_l1_loss_backward.default: _smooth_l1_loss_backward,
    aten._weight_norm_interface_backward.default: _weight_norm_backward,
    torch.ops.rngprims.philox_rand.default: _philox_rand,
}


@cache
def decomposition_table() -> dict[OpOverload, Callable]:
    """Operator -> its decomposition, for `aot_autograd`. Loads the rules."""
    rules = load_rules()
    known = decomposition_tables.global_decomposition_table["post_autograd"]
    table = dict(decomposition_tables._core_aten_decompositions_post_autograd())
    for packet in _MORE:
        overloads = (getattr(packet, name) for name in packet.overloads())
        table.update({overload: known[overload] for overload in overloads if overload in known})
    table.update(fused_optimizers.DECOMPOSITIONS)
    table.update(multilabel_margin_loss.DECOMPOSITIONS)
    table.update(affine_grids.DECOMPOSITIONS)
    table.update(_OWN)
    found = {
        operator: function for operator, function in table.items() if str(operator) not in rules or operator in _ALWAYS
    }
    found.update({operator: norm_statistics.unrounded(table[operator]) for operator in norm_statistics.NORMALIZATIONS})
    # Which of them stays whole depends on its operands.
    found[batch_norm.BATCH_NORM] = batch_norm.kept_whole(found[batch_norm.BATCH_NORM])
    for operator, function in found.items():
        if (taken := aten_arguments.condition(operator)) is not None:
            found[operator] = aten_arguments.where_taken(taken, function)
    return found
