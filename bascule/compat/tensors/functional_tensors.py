"""Functional tensors, whose mutations AOTAutograd turns into new values. Checked on torch 2.11 to 2.14."""

import torch
from torch._functorch._aot_autograd.functional_utils import from_fun, has_data_mutation, to_fun
from torch._higher_order_ops import auto_functionalize
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode, PythonFunctionalizeAPI

__all__ = [
    "FunctionalTensor",
    "FunctionalTensorMode",
    "PythonFunctionalizeAPI",
    "auto_functionalize",
    "from_fun",
    "has_data_mutation",
    "to_fun",
    "value_of",
]


def value_of(x: FunctionalTensor) -> torch.Tensor:
    """The value that `x` has now, after what was written to the tensor that it is a view of."""
    torch._sync(x)
    return torch._from_functional_tensor(x.elem)
