"""The min-cut partitioner, told that it may fuse the composite operators that have rules here.

The partitioner's own lists know what Inductor decomposes such operators into. It takes an operator that is not on them for one that needs its
operands in memory, and so saves what could be computed again for nothing. PyTorch's private lists are named here and nowhere else; checked on
torch 2.13.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import torch
from torch._functorch import partitioners
from torch.utils._ordered_set import OrderedSet

aten, prims = torch.ops.aten, torch.ops.prims

# Their operands are read where they are used, and computed there if they are not in memory.
FUSED = (
    aten._log_softmax_backward_data,
    aten._native_batch_norm_legit_functional,
    aten._softmax_backward_data,
    aten.embedding_dense_backward,
    aten.leaky_relu_backward,
    aten.native_batch_norm_backward,
    aten.native_dropout_backward,
    aten.native_group_norm_backward,
    aten.native_layer_norm,
    aten.native_layer_norm_backward,
    aten.nll_loss_backward,
    aten.nll_loss_forward,
    aten.scatter,
    aten.scatter_add,
    aten.sigmoid_backward,
    aten.silu_backward,
    aten.tanh_backward,
)

# Of one element a result, and cheap: computed again rather than saved.
POINTWISE = (
    aten._prelu_kernel,
    aten.floor_divide,
    aten.hardswish,
    aten.log_sigmoid_forward,
    aten.ones_like,
    aten.special_erfinv,
    aten.special_ndtr,
    aten.tril,
    prims.inductor_lookup_seed,
    prims.inductor_random,
)


@contextmanager
def composites_fused() -> Iterator[None]:
    """The partitioner takes the operators of `FUSED` and `POINTWISE` for fused with what makes their operands, and the latter for cheap."""
    known = partitioners.get_default_op_list

    def extended() -> partitioners.OpTypes:
        types, alias = known(), OrderedSet([aten.detach])
        return replace(
            types,
            fusible_ops=types.fusible_ops | OrderedSet(FUSED + POINTWISE) | alias,
            recomputable_ops=types.recomputable_ops | OrderedSet(POINTWISE) | alias,
            view_ops=types.view_ops | alias,
        )

    with patch.object(partitioners, "get_default_op_list", extended):
        yield
