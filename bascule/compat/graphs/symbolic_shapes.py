"""Expressions of sizes: PyTorch's functions of sympy, ranges of values, how they are printed and evaluated.

Checked on torch 2.11 to 2.14.
"""

from torch.fx.experimental import _config as config
from torch.utils._sympy import functions
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.reference import PythonReferenceAnalysis, TensorReferenceAnalysis
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

__all__ = [
    "PythonPrinter",
    "PythonReferenceAnalysis",
    "TensorReferenceAnalysis",
    "ValueRanges",
    "bound_sympy",
    "config",
    "functions",
    "sympy_interp",
]
