"""Results in the memory of inputs that nobody else holds: what the forward saved, gradients that were made for the call."""

from collections.abc import Sequence
from sys import getrefcount

import torch

from bascule.compat.tensors.allocation import storage_users

from .allocation import empty as empty_cpu
from .allocation import view


def over(x: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of unspecified contents, which the caller says may lie where `x` does: there, if a variable of the caller's is all that holds
    `x`, else in memory of its own.

    A second backward of a graph that is kept, a user who has the logits or a gradient, another function that is given the same gradient hold it
    too. Memory that PyTorch did not allocate may be seen by others. What a CUDA graph records is run again, when there may be others.
    """
    if (
        x.dtype == dtype
        and getrefcount(x) == _one_variable()
        and _users(x) == ALONE
        and not (x.is_cuda and torch.cuda.is_current_stream_capturing())
    ):
        return view(x, sizes, strides, 0)
    if x.is_cuda:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=x.device)
    return empty_cpu(sizes, strides, dtype)


def _one_variable() -> int:
    """References that `over` counts of an object that only a variable of its caller's holds.

    It depends on the moment: where any thread's frames go through a hook (PEP 523; TorchDynamo sets one), a caller holds its arguments too.
    """
    only = object()
    return _references(only)


def _references(x: object) -> int:
    return getrefcount(x)


def _users(x: torch.Tensor) -> tuple[int, int, bool]:
    """References of PyTorch's own to the tensor and to its storage; whether PyTorch allocated that."""
    storage = x.untyped_storage()
    return x._use_count(), storage_users(storage._cdata), storage.resizable()


ALONE = _users(
    empty_cpu((1,), (1,), torch.float32)
)  # past modes that are on where this is imported: of a fake tensor other numbers are told
