"""Numbers that the user computed from sizes (`x.shape[0] ** -0.5`): tensors of rank 0 in f64, as Python computes them.

Other rules take such a number where they take a tensor.
"""

from ...conversion.registry import rule
from ..elementwise.division import remainder
from ..support.operands import elementwise

_MATH = ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh")

_OPERATORS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a.call("math.powf", b),
    "mod": remainder,
    "maximum": lambda a, b: a.maximum(b),
    "minimum": lambda a, b: a.minimum(b),
    "float": lambda a: a,
    "trunc": lambda a: a.call("math.trunc"),
    **{name: lambda a, name=name: a.call(f"math.{name}") for name in _MATH},
}

for _name, _emit in _OPERATORS.items():
    rule(f"sym.{_name}.default")(lambda c, *operands, emit=_emit: elementwise(c, emit, *operands))
