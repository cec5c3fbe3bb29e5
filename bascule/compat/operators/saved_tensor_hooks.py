"""Hooks on saved tensors. Checked on torch 2.11 to 2.14."""

from torch._C._autograd import _top_saved_tensors_default_hooks as top_hooks

__all__ = ["top_hooks"]
