"""Integer tiles as Triton's analysis of axes (AxisInfo, read in 3.6 to 3.8) takes them, and where it holds too much of them.

Loads are vectorized, and lanes that compute alike are computed once, by three numbers an axis: `contiguity` (so many neighbours rise by one),
`constancy` (so many are equal) and `divisibility`, a divisor of the first element of each contiguous run. Triton gives a sum or a difference
the common divisor of its operands; where the runs get shorter, their first elements are others: 200 - row, of rows from 128 on, falls by
one, and passes for a multiple of 8 in each row. A comparison with keys is then made once for eight keys, an address is taken for aligned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from bascule.dialect.mlir import ir

Numbers = tuple[int, ...]
MOST = 1 << 62  # the divisibility of zero


@dataclass(frozen=True)
class AxisInfo:
    """One number an axis (one in all of a scalar); `constant`: the value, where all elements are that."""

    contiguity: Numbers
    divisibility: Numbers
    constancy: Numbers
    constant: int | None = None


def power_of_two(number: int) -> int:
    """The largest one that divides `number`."""
    return number & -number or MOST


def unknown(rank: int) -> AxisInfo:
    ones = (1,) * rank
    return AxisInfo(ones, ones, ones)


class Axes:
    """Infos of values, each found once; what comes from memory, or over a loop's edge, is unknown."""

    def __init__(self) -> None:
        self.known: dict[ir.Value, AxisInfo] = {}

    def of(self, value: ir.Value) -> AxisInfo:
        if value not in self.known:
            owner = value.owner
            self.known[value] = self._argument(value, owner) if isinstance(owner, ir.Block) else self._result(value)
        return self.known[value]

    def _argument(self, value: ir.Value, block: ir.Block) -> AxisInfo:
        owner, number = block.owner.operation, ir.BlockArgument(value).arg_number
        if owner.name == "scf.for" and not number:
            return AxisInfo((1,), (gcd(*(self.of(owner.operands[k]).divisibility[0] for k in (0, 2))),), (1,))
        if owner.name == "tt.func" and "arg_attrs" in owner.attributes:
            hints = owner.attributes["arg_attrs"][number]
            if "tt.divisibility" in hints:
                return AxisInfo((1,), (hints["tt.divisibility"].value,), (1,))
        return unknown(_rank(value.type))

    def _result(self, value: ir.Value) -> AxisInfo:
        op = value.owner
        rule = RULES.get(op.name)
        if rule is None or not isinstance(_element(value.type), ir.IntegerType):
            return unknown(_rank(value.type))
        return rule(op, [self.of(operand) for operand in op.operands])

    def claims_too_much(self, name: str, operands: Sequence[ir.Value]) -> bool:
        """Whether Triton gives `name` of two integer tiles divisors that the result's first elements need not have."""
        if name not in TOO_MUCH:
            return False
        type_ = operands[-1].type
        if not isinstance(type_, ir.RankedTensorType) or not isinstance(type_.element_type, ir.IntegerType):
            return False
        x, y = (self.of(operand) for operand in operands[-2:])
        return None in (x.constant, y.constant) and TOO_MUCH[name](x, y, _shape(type_))


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.RankedTensorType) else type_


def _shape(type_: ir.Type) -> Numbers:
    return tuple(type_.shape) if isinstance(type_, ir.RankedTensorType) else ()


def _rank(type_: ir.Type) -> int:
    return len(_shape(type_)) or 1


def _each(function: Callable[..., int], *numbers: Numbers) -> Numbers:
    return tuple(map(function, *numbers))


# Contiguous runs of the result: (left, right, shape) -> a number an axis

Runs = Callable[[AxisInfo, AxisInfo, Numbers], Numbers]


def _sum_runs(x: AxisInfo, y: AxisInfo, shape: Numbers) -> Numbers:
    left = _each(gcd, x.constancy, y.contiguity)
    return _each(max, left, _each(gcd, x.contiguity, y.constancy))


def _difference_runs(x: AxisInfo, y: AxisInfo, shape: Numbers) -> Numbers:
    return _each(gcd, x.contiguity, y.constancy)


def _remainder_runs(x: AxisInfo, y: AxisInfo, shape: Numbers) -> Numbers:
    """Of a dividend that is contiguous all along the axis; of another one, Triton sees none."""
    whole = zip(shape, x.contiguity, x.divisibility, y.constancy, y.divisibility)
    return tuple(gcd(c, d, divisor) if c == size == same else 1 for size, c, d, same, divisor in whole)


def _no_runs(x: AxisInfo, y: AxisInfo, shape: Numbers) -> Numbers:
    return (1,) * len(x.contiguity)


# Whether runs get shorter than an operand's

Check = Callable[[AxisInfo, AxisInfo, Numbers], bool]


def _shorter(runs: Runs) -> Check:
    def check(x: AxisInfo, y: AxisInfo, shape: Numbers) -> bool:
        return any(run < max(pair) for run, *pair in zip(runs(x, y, shape), x.contiguity, y.contiguity))

    return check


def _parts(x: AxisInfo, y: AxisInfo, shape: Numbers) -> bool:
    """Remainders of a dividend that is contiguous in parts of an axis."""
    return any(1 < run < size for run, size in zip(x.contiguity, shape))


EITHER = ("arith.minsi", "arith.minui", "arith.maxsi", "arith.maxui", "arith.select")
TOO_MUCH: dict[str, Check] = {
    "arith.addi": _shorter(_sum_runs),
    "arith.subi": _shorter(_difference_runs),
    **dict.fromkeys(("arith.remsi", "arith.remui"), _parts),
    **dict.fromkeys(EITHER, _shorter(_no_runs)),
}


# Infos of results: (operation, infos of its operands) -> the result's

Rule = Callable[[ir.Operation, list[AxisInfo]], AxisInfo]


def _range(op: ir.Operation, _: list[AxisInfo]) -> AxisInfo:
    start, end = (op.attributes[name].value for name in ("start", "end"))
    return AxisInfo((end - start,), (power_of_two(start),), (1,))


def _constant(op: ir.Operation, _: list[AxisInfo]) -> AxisInfo:
    attribute, type_ = op.attributes["value"], op.results[0].type
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return unknown(_rank(type_))
        attribute = attribute.get_splat_value()
    number, rank = int(attribute.value), _rank(type_)
    return AxisInfo((1,) * rank, (power_of_two(number),) * rank, _shape(type_) or (1,), number)


def _splat(op: ir.Operation, infos: list[AxisInfo]) -> AxisInfo:
    shape, info = _shape(op.results[0].type), infos[0]
    return AxisInfo((1,) * len(shape), info.divisibility * len(shape), shape, info.constant)


def _expand_dims(op: ir.Operation, infos: list[AxisInfo]) -> AxisInfo:
    axis, info = op.attributes["axis"].value, infos[0]
    each = gcd(*(1 if run > 1 else d for run, d in zip(info.contiguity, info.divisibility)))

    def inserted(numbers: Numbers, number: int) -> Numbers:
        return (*numbers[:axis], number, *numbers[axis:])

    return AxisInfo(
        inserted(info.contiguity, 1), inserted(info.divisibility, each), inserted(info.constancy, 1), info.constant
    )


def _broadcast(op: ir.Operation, infos: list[AxisInfo]) -> AxisInfo:
    info = infos[0]
    old, new = (_shape(value.type) for value in (op.operands[0], op.results[0]))
    same = tuple(size if few == 1 else k for few, size, k in zip(old, new, info.constancy))
    return AxisInfo(info.contiguity, info.divisibility, same, info.constant)


def _same(op: ir.Operation, infos: list[AxisInfo]) -> AxisInfo:
    return infos[0]


def _binary(runs: Runs, divisor: Callable[..., int]) -> Rule:
    """`divisor`: of the contiguities and divisibilities of both sides, along an axis."""

    def rule(op: ir.Operation, infos: list[AxisInfo]) -> AxisInfo:
        x, y = infos[-2:]
        found = runs(x, y, _shape(op.results[0].type) or (1,))
        divisors = _each(divisor, x.contiguity, x.divisibility, y.contiguity, y.divisibility)
        alike = (
            info.constancy for info in infos if len(info.constancy) == len(found)
        )  # a scalar condition changes none
        return AxisInfo(found, divisors, _each(gcd, *alike))

    return rule


def _common(left: int, x: int, right: int, y: int) -> int:
    return gcd(x, y)


def _product(left: int, x: int, right: int, y: int) -> int:
    return min((1 if left > 1 else x) * (1 if right > 1 else y), MOST)


def _quotient(op: ir.Operation, infos: list[AxisInfo]) -> AxisInfo:
    x, y = infos
    shape = _shape(op.results[0].type) or (1,)
    same = _each(gcd, x.constancy, y.constancy)
    runs = _remainder_runs(x, y, shape)
    ones = (1,) * len(shape)
    divisors = ones
    if y.constant and y.constant == power_of_two(y.constant):
        divisors = tuple(max(1, d // y.constant) if c == 1 else 1 for c, d in zip(x.contiguity, x.divisibility))
    return AxisInfo(ones, divisors, _each(max, same, runs))


RULES: dict[str, Rule] = {
    "tt.make_range": _range,
    "arith.constant": _constant,
    "tt.splat": _splat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.trunci"), _same),
    "arith.addi": _binary(_sum_runs, _common),
    "arith.subi": _binary(_difference_runs, _common),
    "arith.muli": _binary(_no_runs, _product),
    **dict.fromkeys(("arith.divsi", "arith.divui"), _quotient),
    **dict.fromkeys(("arith.remsi", "arith.remui"), _binary(_remainder_runs, _common)),
    **dict.fromkeys(EITHER, _binary(_no_runs, _common)),
    **dict.fromkeys(("arith.andi", "arith.ori", "arith.xori"), _binary(_no_runs, lambda *_: 1)),
}
