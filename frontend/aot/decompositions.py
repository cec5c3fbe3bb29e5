"""The decompositions that AOTAutograd applies: what has no rule of its own becomes operators that have one.

An operator with a rule is never decomposed: a rule builds a composite operator for a tenth of what tracing its parts costs, and the
operators that stay whole for ATen have rules too.
The tables are `torch._decomp`'s, a private module: checked on torch 2.13.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import _decomp

from ..conversion.registry import load_rules
from ..fx_passes import batch_norm
from ..torch_patches import multilabel_margin_loss
from ..torch_patches.unique_fake_dtypes import correct_unique_indices
from . import aten_arguments, fused_optimizers, philox_states, weight_norm

aten = torch.ops.aten

correct_unique_indices()  # before anything is traced

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


@cache
def decomposition_table() -> dict[torch._ops.OpOverload, Callable]:
    """Operator -> its decomposition, for `aot_autograd`. Loads the rules."""
    rules = load_rules()
    known = _decomp.global_decomposition_table["post_autograd"]
    table = dict(_decomp._core_aten_decompositions_post_autograd())
    for packet in _MORE:
        overloads = (getattr(packet, name) for name in packet.overloads())
        table.update({overload: known[overload] for overload in overloads if overload in known})
    table.update(fused_optimizers.DECOMPOSITIONS)
    table.update(multilabel_margin_loss.DECOMPOSITIONS)
    table.update(weight_norm.DECOMPOSITIONS)
    table.update(philox_states.DECOMPOSITIONS)
    found = {
        operator: function for operator, function in table.items() if str(operator) not in rules or operator in _ALWAYS
    }
    # Which of them stays whole depends on its operands.
    found[batch_norm.BATCH_NORM] = batch_norm.kept_whole(table[batch_norm.BATCH_NORM])
    found |= {
        operator: aten_arguments.where_taken(operator, found[operator])
        for operator in aten_arguments.TAKEN
        if operator in found
    }
    return found
