"""Remainders of Python's floats that a graph is given (`x * (k % 1.5)`), as numbers that it computes.

Such a number becomes a tensor by a table of PyTorch's, which has no remainder: its trace fails (seen in 2.14). Inside `float_remainders` it has
one.

The table is private to PyTorch. Checked on torch 2.11 to 2.14.
"""

import torch

from bascule.compat.graphs.symbolic_shapes import TensorReferenceAnalysis

from .patch import missing


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Has the sign of y, as Python's."""
    return torch.ops.aten.remainder.Tensor(x, y)


float_remainders = missing(TensorReferenceAnalysis, "python_mod", staticmethod(_remainder))
