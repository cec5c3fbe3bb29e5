"""Functional tensors, whose mutations AOTAutograd turns into new values. Checked on torch 2.11 to 2.14."""

from torch._functorch._aot_autograd.functional_utils import from_fun, has_data_mutation, to_fun
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode, PythonFunctionalizeAPI

__all__ = [
    "FunctionalTensor",
    "FunctionalTensorMode",
    "PythonFunctionalizeAPI",
    "from_fun",
    "has_data_mutation",
    "to_fun",
]
