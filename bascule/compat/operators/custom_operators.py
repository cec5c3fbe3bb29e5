"""Custom operators as their authors registered them, and the effects that operators declare. Checked on torch 2.11 to 2.14."""

import torch
from torch._higher_order_ops import effects
from torch._higher_order_ops.effects import _EffectType as EffectType
from torch._higher_order_ops.effects import _get_effect as effect_of
from torch._higher_order_ops.effects import _register_effectful_op as register_effectful
from torch._library.custom_ops import OPDEFS

# The first and the last token of effects in a graph.
MAKE_TOKEN = torch.ops.prims._make_token.default
SINK_TOKENS = torch.ops.prims._sink_tokens.default

__all__ = [
    "MAKE_TOKEN",
    "OPDEFS",
    "SINK_TOKENS",
    "EffectType",
    "effect_of",
    "effects",
    "register_effectful",
]
