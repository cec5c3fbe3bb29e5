"""Scalars inside a region: an MLIR value together with its torch dtype, and operators on them with torch's semantics.

MLIR's integers have no sign and its i1 is not a number; torch's have and is. `Scalar` keeps the dtype beside the value, so that
`x + 1`, `x < y` or `x.to(torch.uint8)` pick the op, the predicate and the extension that torch means. Both operands of an
operator have the same dtype (or one is a Python number): promotion happened before, in `operands.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from bascule.dialect.ir.attributes import i64
from bascule.dialect.ir.types import CAST, to_nearest_even
from bascule.dialect.mlir import arith, ir

from ...conversion.registry import LeftToAten, NoRule

Number = bool | int | float

# dtype -> the element type of its tensors. Unsigned scalars are signless: see `bascule.dialect.ir.types`.
_ELEMENTS: dict[torch.dtype, Callable[[], ir.Type]] = {
    torch.bool: lambda: ir.IntegerType.get_signless(1),
    torch.int8: lambda: ir.IntegerType.get_signless(8),
    torch.int16: lambda: ir.IntegerType.get_signless(16),
    torch.int32: lambda: ir.IntegerType.get_signless(32),
    torch.int64: lambda: ir.IntegerType.get_signless(64),
    torch.uint8: lambda: ir.IntegerType.get_unsigned(8),
    torch.uint16: lambda: ir.IntegerType.get_unsigned(16),
    torch.uint32: lambda: ir.IntegerType.get_unsigned(32),
    torch.uint64: lambda: ir.IntegerType.get_unsigned(64),
    torch.float16: ir.F16Type.get,
    torch.bfloat16: ir.BF16Type.get,
    torch.float32: ir.F32Type.get,
    torch.float64: ir.F64Type.get,
    torch.float8_e4m3fn: ir.Float8E4M3FNType.get,
    torch.float8_e5m2: ir.Float8E5M2Type.get,
    torch.float8_e4m3fnuz: ir.Float8E4M3FNUZType.get,
    torch.float8_e5m2fnuz: ir.Float8E5M2FNUZType.get,
}
_INTEGERS = {
    (1, False): torch.bool,
    (8, False): torch.int8,
    (16, False): torch.int16,
    (32, False): torch.int32,
    (64, False): torch.int64,
    (8, True): torch.uint8,
    (16, True): torch.uint16,
    (32, True): torch.uint32,
    (64, True): torch.uint64,
}
_FLOATS = {
    ir.F16Type: torch.float16,
    ir.BF16Type: torch.bfloat16,
    ir.F32Type: torch.float32,
    ir.F64Type: torch.float64,
    ir.Float8E4M3FNType: torch.float8_e4m3fn,
    ir.Float8E5M2Type: torch.float8_e5m2,
    ir.Float8E4M3FNUZType: torch.float8_e4m3fnuz,
    ir.Float8E5M2FNUZType: torch.float8_e5m2fnuz,
}
NARROW = (torch.float16, torch.bfloat16)  # computed with in f32
UNSIGNED = frozenset((torch.uint8, torch.uint16, torch.uint32, torch.uint64))


def dtype_of(element: ir.Type) -> torch.dtype | None:
    """The torch dtype of a tensor's element type; None for one that scalars do not have (complex)."""
    if isinstance(element, ir.IntegerType):
        return _INTEGERS.get((element.width, element.is_unsigned))
    return _FLOATS.get(type(element))


def element_type(dtype: torch.dtype) -> ir.Type:
    """The element type of tensors of `dtype`."""
    return _ELEMENTS[dtype]()


def scalar_type(dtype: torch.dtype) -> ir.Type:
    """The type of an MLIR scalar of `dtype`: signless."""
    return ir.IntegerType.get_signless(dtype.itemsize * 8) if dtype in UNSIGNED else _ELEMENTS[dtype]()


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def is_signed(dtype: torch.dtype) -> bool:
    """Signed integers (not floats)."""
    return not dtype.is_floating_point and dtype not in UNSIGNED and dtype != torch.bool


def opmath(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which arithmetic on `dtype` happens: f32 for every narrower float."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def integer_predicate(name: str, signed: bool) -> arith.CmpIPredicate:
    """MLIR's predicate for `eq`, `ne`, `lt`, `le`, `gt` or `ge`."""
    return arith.CmpIPredicate[name if name in ("eq", "ne") else ("s" if signed else "u") + name]


def float_predicate(name: str) -> arith.CmpFPredicate:
    """The same of floats: with NaN only `ne` is true."""
    return arith.CmpFPredicate["UNE" if name == "ne" else f"O{name.upper()}"]


def _marked(mark: str | None) -> dict[str, ir.Attribute]:
    return {} if mark is None else {mark: ir.UnitAttr.get()}


def create(name: str, type_: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    """One op of one result at the current insertion point."""
    return ir.Operation.create(name, results=[type_], operands=list(operands), attributes=attributes or None).result


def refuse_symbolic(number: object) -> None:
    """Leaves an operator to ATen whose rule would compute with `number` now, where sizes or data give it when the graph runs."""
    if isinstance(number, ir.AffineExpr | ir.Value):
        raise NoRule("a number that sizes or data give")


class Scalar:
    """A value of a region with its torch dtype. Immutable."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: ir.Value, dtype: torch.dtype):
        self.value, self.dtype = value, dtype

    @staticmethod
    def constant(number: Number, dtype: torch.dtype) -> Scalar:
        """`number` converted to `dtype` as torch converts a Python number; `NoRule` for a complex one, of which ATen knows whether it counts."""
        refuse_symbolic(number)
        if isinstance(number, complex):
            raise NoRule("a complex number")
        type_ = scalar_type(dtype)
        if dtype.is_floating_point:
            attribute = ir.FloatAttr.get(type_, float(number))
        else:
            integer = int(bool(number)) if dtype == torch.bool else int(number)
            width = 1 if dtype == torch.bool else dtype.itemsize * 8
            half = 1 << (width - 1)
            attribute = ir.IntegerAttr.get(type_, (integer + half) % (2 * half) - half)
        return Scalar(create("arith.constant", type_, value=attribute), dtype)

    def known(self) -> int | None:
        """The signed integer that it always is; None for any other."""
        owner = self.value.owner
        constant = not isinstance(owner, ir.Block) and owner.name == "arith.constant"
        return owner.attributes["value"].value if constant and not is_float(self.dtype) else None

    def like(self, number: Number | Scalar) -> Scalar:
        """`number` as a scalar of this one's dtype; a scalar stays as it is."""
        return number if isinstance(number, Scalar) else Scalar.constant(number, self.dtype)

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def _binary(self, other: Number | Scalar, float_op: str, integer_op: str, swap: bool = False) -> Scalar:
        other = self.like(other)
        assert other.dtype == self.dtype, f"{float_op} of {self.dtype} and {other.dtype}"
        a, b = (other, self) if swap else (self, other)
        name = float_op if self.dtype.is_floating_point else integer_op
        self._require(name != "")
        return Scalar(create(name, a.value.type, a.value, b.value), self.dtype)

    def _require(self, defined: bool) -> None:
        """Leaves an operator to ATen whose arithmetic is not `defined` for this dtype: there is no such operator in eager either."""
        if not defined:
            raise LeftToAten(f"ATen refuses {'floats' if self.dtype.is_floating_point else 'whole numbers'}")

    def __add__(self, other):  # of booleans: or
        return self._binary(other, "arith.addf", "arith.ori" if self.dtype == torch.bool else "arith.addi")

    def __mul__(self, other):  # of booleans: and
        return self._binary(other, "arith.mulf", "arith.andi" if self.dtype == torch.bool else "arith.muli")

    def __sub__(self, other):
        return self._binary(other, "arith.subf", "arith.subi")

    def __rsub__(self, other):
        return self._binary(other, "arith.subf", "arith.subi", swap=True)

    def __truediv__(self, other):
        return self._binary(other, "arith.divf", "")

    def __rtruediv__(self, other):
        return self._binary(other, "arith.divf", "", swap=True)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        if self.dtype.is_floating_point:
            return self.call("arith.negf")
        return self.like(0) - self

    def __and__(self, other):
        return self._binary(other, "", "arith.andi")

    def __or__(self, other):
        return self._binary(other, "", "arith.ori")

    def __xor__(self, other):
        return self._binary(other, "", "arith.xori")

    def __invert__(self):
        return self ^ self.like(True if self.dtype == torch.bool else -1)

    def shift_left(self, count: Number | Scalar) -> Scalar:
        """`count` must be below the width."""
        return self._binary(count, "", "arith.shli")

    def shift_right(self, count: Number | Scalar) -> Scalar:
        """Arithmetic for signed integers, logical for the others; `count` must be below the width."""
        return self._binary(count, "", "arith.shrsi" if is_signed(self.dtype) else "arith.shrui")

    def quotient(self, other: Scalar) -> Scalar:
        """Integer division towards zero; the divisor must be neither 0 nor (for signed) -1."""
        return self._binary(other, "", "arith.divsi" if is_signed(self.dtype) else "arith.divui")

    def floor_quotient(self, other: Scalar) -> Scalar:
        """Division of signed integers, rounded down; the divisor must be neither 0 nor -1."""
        return self._binary(other, "", "arith.floordivsi")

    def remainder(self, other: Scalar) -> Scalar:
        """C's `%` and `fmod`: the sign of the dividend. An integer divisor must be neither 0 nor (for signed) -1."""
        return self._binary(other, "arith.remf", "arith.remsi" if is_signed(self.dtype) else "arith.remui")

    def maximum(self, other: Number | Scalar) -> Scalar:
        """NaN wins."""
        return self._binary(other, "arith.maximumf", "arith.maxsi" if is_signed(self.dtype) else "arith.maxui")

    def minimum(self, other: Number | Scalar) -> Scalar:
        """NaN wins."""
        return self._binary(other, "arith.minimumf", "arith.minsi" if is_signed(self.dtype) else "arith.minui")

    def call(self, name: str, *others: Number | Scalar) -> Scalar:
        """The op `name` (`math.exp`; of integers `math.absi`) on this and `others`, all of one type, which is the result's."""
        self._require(self.dtype.is_floating_point != name.endswith("i"))
        return Scalar(create(name, self.value.type, self.value, *(self.like(o).value for o in others)), self.dtype)

    def abs(self) -> Scalar:
        if self.dtype.is_floating_point:
            return self.call("math.absf")
        return self.call("math.absi") if is_signed(self.dtype) else self

    def sqrt(self) -> Scalar:
        return self.call("math.sqrt")

    def exp(self) -> Scalar:
        return self.call("math.exp")

    def log(self) -> Scalar:
        return self.call("math.log")

    def log1p(self) -> Scalar:
        return self.call("math.log1p")

    def floor(self) -> Scalar:
        return self.call("math.floor")

    def copysign(self, sign: Scalar) -> Scalar:
        return self.call("math.copysign", sign)

    # -- comparison -------------------------------------------------------------------------------------------------

    def compare(self, predicate: str, other: Number | Scalar) -> Scalar:
        """`eq`, `ne`, `lt`, `le`, `gt` or `ge`; with NaN only `ne` is true."""
        other = self.like(other)
        assert other.dtype == self.dtype, f"{predicate} of {self.dtype} and {other.dtype}"
        if self.dtype.is_floating_point:
            name, number = "arith.cmpf", i64(float_predicate(predicate))
        else:
            name, number = "arith.cmpi", i64(integer_predicate(predicate, is_signed(self.dtype)))
        i1 = ir.IntegerType.get_signless(1)
        return Scalar(create(name, i1, self.value, other.value, predicate=number), torch.bool)

    def __lt__(self, other):
        return self.compare("lt", other)

    def __le__(self, other):
        return self.compare("le", other)

    def __gt__(self, other):
        return self.compare("gt", other)

    def __ge__(self, other):
        return self.compare("ge", other)

    def eq(self, other: Number | Scalar) -> Scalar:
        return self.compare("eq", other)

    def ne(self, other: Number | Scalar) -> Scalar:
        return self.compare("ne", other)

    def isnan(self) -> Scalar:
        return self.ne(self) if self.dtype.is_floating_point else Scalar.constant(False, torch.bool)

    def isinf(self) -> Scalar:
        return self.abs().eq(math.inf) if self.dtype.is_floating_point else Scalar.constant(False, torch.bool)

    # -- conversion -------------------------------------------------------------------------------------------------

    def bitcast(self, dtype: torch.dtype) -> Scalar:
        """The same bits as another dtype of the same width."""
        return Scalar(create("arith.bitcast", scalar_type(dtype), self.value), dtype)

    def to(self, dtype: torch.dtype, *, rounding: bool = False, mark: str | None = None) -> Scalar:
        """Converted as torch converts. `rounding`: no pass removes the roundings. `mark`, `CAST` or `STORED`, tells `drop-roundings` what
        the conversion is for; the user's own (`CAST`) to others than 16 bits always rounds."""
        source = self.dtype
        if source == dtype:
            return self
        if dtype == torch.bool:  # NaN is true
            return self.ne(0)
        if source.is_floating_point:
            if not dtype.is_floating_point:
                return self._float_to_integer(dtype, mark)
            return self._resize_float(dtype, rounding, mark)
        if dtype.is_floating_point:
            wide = opmath(dtype)
            name = "arith.sitofp" if is_signed(source) else "arith.uitofp"
            return Scalar(create(name, scalar_type(wide), self.value), wide).to(dtype, rounding=rounding, mark=mark)
        width, wanted = (1 if source == torch.bool else source.itemsize * 8), dtype.itemsize * 8
        if width == wanted:
            return Scalar(self.value, dtype)
        name = "arith.trunci" if wanted < width else "arith.extsi" if is_signed(source) else "arith.extui"
        return Scalar(create(name, scalar_type(dtype), self.value), dtype)

    def _resize_float(self, dtype: torch.dtype, rounding: bool, mark: str | None) -> Scalar:
        # Between two floats of at most 16 bits, and from f64 to one, torch goes through f32.
        if dtype.itemsize < 4 and self.dtype != torch.float32:
            return self.to(torch.float32, rounding=rounding, mark=mark).to(dtype, rounding=rounding, mark=mark)
        type_ = scalar_type(dtype)
        if dtype.itemsize > self.dtype.itemsize:
            return Scalar(create("arith.extf", type_, self.value, **_marked(mark)), dtype)
        always = rounding or (mark == CAST and dtype not in NARROW)
        attributes = {"roundingmode": to_nearest_even()} if always else _marked(mark)
        return Scalar(create("arith.truncf", type_, self.value, **attributes), dtype)

    def _float_to_integer(self, dtype: torch.dtype, mark: str | None) -> Scalar:
        # Below 32 bits by way of i32, unsigned below 64 by way of i64, so that -1.0 becomes 255 as in torch.
        if self.dtype.itemsize < 4:
            return self.to(torch.float32, mark=mark).to(dtype)
        if dtype.itemsize < 4:
            return self.to(torch.int32).to(dtype)
        if dtype == torch.uint32:
            return self.to(torch.int64).to(dtype)
        name = "arith.fptoui" if dtype in UNSIGNED else "arith.fptosi"
        return Scalar(create(name, scalar_type(dtype), self.value), dtype)


def select(condition: Scalar, yes: Number | Scalar, no: Number | Scalar) -> Scalar:
    """`yes` where `condition` (bool) holds, else `no`; at least one of them is a scalar."""
    known = yes if isinstance(yes, Scalar) else no
    assert isinstance(known, Scalar)
    first, second = known.like(yes), known.like(no)
    assert first.dtype == second.dtype, f"select of {first.dtype} and {second.dtype}"
    return Scalar(create("arith.select", first.value.type, condition.value, first.value, second.value), first.dtype)


def polynomial(x: Scalar, coefficients: tuple[float, ...]) -> Scalar:
    """Horner's scheme; the highest power first."""
    total = x.like(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
