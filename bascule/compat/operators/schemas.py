"""Operators and their schemas. Checked on torch 2.11 to 2.14."""

from torch._C import Argument, FunctionSchema
from torch._C import _dispatch_has_kernel as is_registered
from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel
from torch._C import _jit_resolve_packet as resolve_packet
from torch._higher_order_ops.base_hop import BaseHOP
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

LIBRARIES = "torch._ops."  # what the modules of libraries' operators begin with

__all__ = [
    "LIBRARIES",
    "Argument",
    "BaseHOP",
    "FunctionSchema",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "has_kernel",
    "is_registered",
    "resolve_packet",
]
