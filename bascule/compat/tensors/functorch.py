"""Transforms of `torch.func`, and the tensors that they wrap. Checked on torch 2.11 to 2.14."""

from torch._C import _are_functorch_transforms_active as transforms_at_work
from torch._C._functorch import (
    get_unwrapped,
    is_functorch_wrapped_tensor,
    is_legacy_batchedtensor,
    peek_interpreter_stack,
)
from torch._functorch.eager_transforms import enable_inplace_requires_grad
from torch.nn.attention.flex_attention import _vmap_for_bhqkv as vmap_for_bhqkv

_MODULES = ("torch._functorch.", "torch._C._functorch")


def is_of_transforms(function: object) -> bool:
    """Whether a function is one of those that `torch.func` makes around a user's."""
    return (getattr(function, "__module__", None) or "").startswith(_MODULES)


__all__ = [
    "enable_inplace_requires_grad",
    "get_unwrapped",
    "is_functorch_wrapped_tensor",
    "is_legacy_batchedtensor",
    "is_of_transforms",
    "peek_interpreter_stack",
    "transforms_at_work",
    "vmap_for_bhqkv",
]
