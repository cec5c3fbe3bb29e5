"""The reference interpreter: runs IR of the tensor, kernel and program stages with torch on the CPU.

Clear rather than fast. A region is evaluated for all of its points at once, so a sum over n x m points holds n x m
numbers.
"""

from .entry import check_arguments, choose, interpret
from .errors import InterpreterError
from .graph import arguments_of, interpret_graph
from .inputs import random_inputs, random_tensor
from .numerics.comparison import Comparison, compare, relative_errors, tolerance_of
from .reference import Reference, reference

__all__ = [
    "Comparison",
    "InterpreterError",
    "Reference",
    "arguments_of",
    "check_arguments",
    "choose",
    "compare",
    "interpret",
    "interpret_graph",
    "random_inputs",
    "random_tensor",
    "reference",
    "relative_errors",
    "tolerance_of",
]
