"""Transcendental functions: in line (`polynomials.py`), or Sleef's vector functions, which torch's own library carries, by name.

`math` ops that LLVM knows as instructions (sqrt, floor, fma, ...) are not here.
"""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from ..values.lanes import extract, joined, pieces, shuffle
from ..values.scalars import Scalars, element
from ..values.target import Target
from .polynomials import INLINE

# math op -> Sleef function and the suffix of its accuracy (units in the last place, times ten)
SLEEF = {
    "math.exp": ("exp", "_u10"),
    "math.exp2": ("exp2", "_u10"),
    "math.expm1": ("expm1", "_u10"),
    "math.log": ("log", "_u10"),
    "math.log2": ("log2", "_u10"),
    "math.log10": ("log10", "_u10"),
    "math.log1p": ("log1p", "_u10"),
    "math.sin": ("sin", "_u10"),
    "math.cos": ("cos", "_u10"),
    "math.tan": ("tan", "_u10"),
    "math.asin": ("asin", "_u10"),
    "math.acos": ("acos", "_u10"),
    "math.atan": ("atan", "_u10"),
    "math.atan2": ("atan2", "_u10"),
    "math.sinh": ("sinh", "_u10"),
    "math.cosh": ("cosh", "_u10"),
    "math.tanh": ("tanh", "_u10"),
    "math.asinh": ("asinh", "_u10"),
    "math.acosh": ("acosh", "_u10"),
    "math.atanh": ("atanh", "_u10"),
    "math.erf": ("erf", "_u10"),
    "math.erfc": ("erfc", "_u15"),
    "math.powf": ("pow", "_u10"),
    "math.cbrt": ("cbrt", "_u10"),
    "arith.remf": ("fmod", ""),
}
# Sleef's fmod gives NaN where a quotient is no finite number, as those by subnormals are. That of two f32 is one in f64, where their remainder
# is taken; that of two f64 is libm's.
THROUGH_F64 = ("arith.remf",)


class Functions:
    """Calls of vector functions; `declared` collects name -> type of what is called."""

    def __init__(self, target: Target):
        self.target = target
        self.declared: dict[str, ir.FunctionType] = {}

    def __contains__(self, name: str) -> bool:
        return name in SLEEF

    def build(self, s: Scalars, name: str, operands: Sequence[ir.Value]) -> ir.Value:
        """The function `name` (of `SLEEF`) of f32 or f64 values, all scalars or all vectors of one width."""
        if name in INLINE and element(operands[0].type) == s.b.f32:
            return INLINE[name](s, *operands)
        if name in THROUGH_F64 and element(operands[0].type) == s.b.f32:
            wide = [s.convert("arith.extf", x, s.b.f64) for x in operands]
            return s.convert("arith.truncf", self._called(s, name, wide), s.b.f32)
        return self._libm(s, name, operands) if name in THROUGH_F64 else self._called(s, name, operands)

    def _called(self, s: Scalars, name: str, operands: Sequence[ir.Value]) -> ir.Value:
        return self._call(s, name, operands) if self.target.avx else self._libm(s, name, operands)

    def _libm(self, s: Scalars, name: str, operands: Sequence[ir.Value]) -> ir.Value:
        """libm's function of the same name, called for one lane after the other."""
        type_, scalar = operands[0].type, element(operands[0].type)
        callee = SLEEF[name][0] + ("" if scalar == s.b.f64 else "f")
        self.declared[callee] = ir.FunctionType.get([scalar] * len(operands), [scalar])
        call = {"callee": ir.FlatSymbolRefAttr.get(callee)}
        if not isinstance(type_, ir.VectorType):
            return s.b.value("func.call", scalar, operands, call, s.level)
        lanes = [
            s.b.value("func.call", scalar, [extract(s, x, i) for x in operands], call, s.level)
            for i in range(type_.shape[0])
        ]
        return s.b.value("vector.from_elements", type_, lanes, None, s.level)

    def _call(self, s: Scalars, name: str, operands: Sequence[ir.Value]) -> ir.Value:
        stem, accuracy = SLEEF[name]
        type_ = operands[0].type
        double = element(type_) == s.b.f64
        # Sleef's narrowest vectors in torch's library are those of AVX.
        lanes = max(self.target.vector_bits, 256) // (64 if double else 32)
        native = ir.VectorType.get([lanes], element(type_))
        callee = f"Sleef_{stem}{'d' if double else 'f'}{lanes}{accuracy}"
        self.declared[callee] = ir.FunctionType.get([native] * len(operands), [native])
        call = {"callee": ir.FlatSymbolRefAttr.get(callee)}

        def called(parts: Sequence[ir.Value]) -> ir.Value:
            return s.b.value("func.call", native, parts, call, s.level)

        if not isinstance(type_, ir.VectorType):
            spread = [s.b.value("vector.broadcast", native, [x], None, s.level) for x in operands]
            return extract(s, called(spread), 0)
        width = type_.shape[0]
        if width == lanes:
            return called(operands)
        if width < lanes:
            # The lanes beyond repeat the first.
            pattern = [i if i < width else 0 for i in range(lanes)]
            result = called([shuffle(s, x, x, pattern) for x in operands])
            return shuffle(s, result, result, list(range(width)))
        return joined(s, [called(parts) for parts in zip(*(pieces(s, x, lanes) for x in operands))])
