"""Fake tensors: shapes, dtypes and devices without memory. Checked on torch 2.11 to 2.14."""

from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._subclasses.fake_impls import op_implementations_dict
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    is_fake,
    unset_fake_temporarily,
)

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "is_fake",
    "op_implementations_dict",
    "registered_hop_fake_fns",
    "unset_fake_temporarily",
]
