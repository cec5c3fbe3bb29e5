"""Custom operators as their authors registered them, and the effects that operators declare. Checked on torch 2.11 to 2.14."""

from collections.abc import Callable
from inspect import unwrap
from typing import Any

import torch
from torch._higher_order_ops import effects
from torch._higher_order_ops.effects import _EffectType as EffectType
from torch._higher_order_ops.effects import _get_effect as effect_of
from torch._higher_order_ops.effects import _register_effectful_op as register_effectful
from torch._library.custom_ops import OPDEFS
from torch._library.simple_registry import singleton

# The first and the last token of effects in a graph.
MAKE_TOKEN = torch.ops.prims._make_token.default
SINK_TOKENS = torch.ops.prims._sink_tokens.default


def register_fake(name: str, function: Callable[..., Any], library: torch.library.Library) -> None:
    """`torch.library.register_fake` of an operator that `library` defines. PyTorch's looks for the module of the line that calls it among the
    files of all modules that are loaded, 14 ms at the first time."""
    code = unwrap(function).__code__
    source = f"{code.co_filename}:{code.co_firstlineno}"
    handle = singleton.find(name).fake_impl.register(function, source, lib=library)
    library._registration_handles.append(handle)


__all__ = [
    "MAKE_TOKEN",
    "OPDEFS",
    "SINK_TOKENS",
    "EffectType",
    "effect_of",
    "effects",
    "register_effectful",
    "register_fake",
]
