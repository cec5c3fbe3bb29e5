"""The multilabel margin loss in parts: a row's target classes end at its first -1.

PyTorch's own decomposition, which it applies wherever gradients are traced, counts what follows that -1 as class 0 (seen in 2.13). Inside
`multilabel_margins_right` ours is in its place.

How PyTorch keeps such decompositions is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from bascule.compat.operators.dispatch import DispatchKey
from bascule.compat.operators.schemas import OpOverload

from ..patch import python_kernel

_OPERATOR = torch.ops.aten.multilabel_margin_loss_forward.default
_NONE, _MEAN = 0, 1  # `at::Reduction`


def _forward(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """The loss, and 1 at the classes that are targets.

    A row's loss is the sum of max(0, 1 - x[t] + x[c]) / classes, over its targets t and the classes c that are none.
    """
    rows, targets = torch.atleast_2d(x), torch.atleast_2d(target)
    size = rows.shape[1]
    classes = torch.arange(size, device=target.device)
    named = classes < torch.where(targets == -1, classes, size).amin(-1, keepdim=True)
    is_target = (classes == torch.where(named, targets, -1).unsqueeze(-1)).any(1)
    of_targets = rows.gather(-1, torch.where(named, targets, 0))
    pairs = torch.relu(1.0 - of_targets.unsqueeze(-1) + rows.unsqueeze(1)) / size  # row, target, class
    loss = torch.where(named.unsqueeze(-1) & ~is_target.unsqueeze(1), pairs, 0).sum((1, 2))
    loss = loss.reshape(x.shape[:-1])
    if reduction != _NONE:
        loss = loss.mean() if reduction == _MEAN else loss.sum()
    return loss, is_target.to(x.dtype).reshape(target.shape)


DECOMPOSITIONS: dict[OpOverload, Callable] = {_OPERATOR: _forward}

multilabel_margins_right = python_kernel(_OPERATOR, DispatchKey.Autograd, _forward)
