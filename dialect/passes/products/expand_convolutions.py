"""The pass `expand-convolutions`: depthwise convolutions and their gradients become computes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from ...analysis.memory.convolution_operands import Convolution, static
from ...analysis.memory.matmul_operands import runs_along
from ...ir import builders
from ...ir.functions import STORED, replace_extern_calls
from ...ir.shapes import constant, row_major, shape_of, tensor_type
from ...ir.types import rounding_mode
from ...mlir import arith, ir, scf
from ...remarks.attribute import add_remark, place
from ...remarks.record import MISSED, PASSED, Remark
from ..base import VALUES, Pass, check_target

Expr = ir.AffineExpr
At = list[ir.Value]


@dataclass(frozen=True)
class ExpandConvolutions(Pass):
    """Takes the tensor stage as `torch-to-bascule` leaves it. On `target` cuda calls of `aten.convolution` and `aten.convolution_backward`
    become computes where each channel has a window of its own (groups, channels in and out are equal): sums that no tensor core multiplies, so
    what is around them goes along. Taken are floats, static sizes, one to three dimensions, any stride, padding and dilation, no bias (the
    rewrite `peel-biases` makes it an addition); not a transposed one, nor the input's gradient of a stride with a dilation. Where memory does
    not run along the channels, only a forward without a stride is taken. The gradient of the input gathers the windows that an element lies in,
    that of the weight sums over batch and places.

    Sums are in f32 (f64 of f64) and rounded once, whatever PyTorch allows cuDNN (TF32). A depthwise convolution that stays a call has a remark
    that says why.
    """

    name: ClassVar[str] = "expand-convolutions"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    numerics: str = "f32"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            replace_extern_calls(module, self._expand)

    def _expand(self, op: ir.Operation, function: ir.Operation) -> bool:
        found = Convolution.of(op, function)
        if found is None or not found.depthwise:
            return False
        at = place(op)
        if refusal := _refusal(found):
            add_remark(op, Remark(self.name, MISSED, "of one channel a group stays a call", refusal, at))
            return False
        rounding = rounding_mode(kept=self.numerics == "eager")
        made = _Expansion(found, rounding)
        parts = [made.forward] if found.gradient is None else [made.of_input, made.of_weight, made.of_bias]
        with ir.InsertionPoint(op), op.location:
            for number, result in zip(found.results, op.results):
                value = parts[number](result.type)
                windows = f"windows of {'x'.join(map(str, found.window))}"
                add_remark(value.owner.operation, Remark(self.name, PASSED, "expanded", windows, at))
                result.replace_all_uses_with(value)
        op.erase()
        return True


def _refusal(found: Convolution) -> str:
    """Why a depthwise convolution stays a call; "" if it is expanded."""
    tensors = [value for value in (found.x, found.weight, found.gradient) if value is not None]
    element = found.x.type.element_type
    if not isinstance(element, ir.FloatType) or element.width < 16:
        return f"of {element}"
    if not static([*tensors, *found.op.results]):
        return "its sizes are not known"
    if found.biased:
        return "it adds a bias"
    if not runs_along(found.x, 1):
        if found.gradient is not None:
            return "memory does not run along its channels, as sums over places need it"
        if any(stride > 1 for stride, *_ in found.steps):
            return "memory does not run along its channels, and it has a stride"
    if 0 in found.results and found.gradient is not None and any(s > 1 and d > 1 for s, _, d in found.steps):
        return "its windows have gaps and a stride"
    return ""


@dataclass(frozen=True)
class _Expansion:
    """The computes that a depthwise convolution is. `rounding`: attributes of the roundings of its elements."""

    found: Convolution
    rounding: dict[str, ir.Attribute]

    def forward(self, type_: ir.RankedTensorType) -> ir.Value:
        """At each place of the result the sum over its window."""
        x, weight = self.found.x, self._weight(self.found.x)
        rank = len(self.found.window)
        window = [_dim(2 + i) * s + _dim(2 + rank + i) * d - p for i, (s, p, d) in enumerate(self.found.steps)]

        def body(at: At) -> ir.Value:
            def term(k: At) -> ir.Value:
                places = builders.apply(_map(2 + 2 * rank, window), [*at, *k], ())
                read = _where(self._inside(x, places), x, [*at[:2], *places])
                return self._product(read, builders.read(weight, [at[1], _zero(), *k]))

            return self._sum(self.found.window, term, type_)

        return builders.compute(type_, list(type_.shape), body)

    def of_input(self, type_: ir.RankedTensorType) -> ir.Value:
        """At each place of the input the sum over the windows that it lies in: with a stride every so many elements of them."""
        gradient, weight = self._gradient, self._weight(self._gradient)
        rank = len(self.found.window)
        counts, windows, elements = [], [], []
        for i, (k, (s, p, d)) in enumerate(zip(self.found.window, self.found.steps)):
            place, number = _dim(2 + i) + p, _dim(2 + rank + i)
            counts.append(-(-k // s))
            windows.append(place - number * d if s == 1 else Expr.get_floor_div(place, s) - number)
            elements.append(number if s == 1 else place - windows[-1] * s)

        def body(at: At) -> ir.Value:
            def term(number: At) -> ir.Value:
                made = builders.apply(_map(2 + 2 * rank, [*windows, *elements]), [*at, *number], ())
                places, inside = made[:rank], made[rank:]
                read = _where(self._inside(gradient, places), gradient, [*at[:2], *places])
                # Where the stride does not divide the window, some places are in one window less.
                there = [_below(k, n) for k, n, (s, *_) in zip(inside, self.found.window, self.found.steps) if n % s]
                return self._product(read, _where(there, weight, [at[1], _zero(), *inside]))

            return self._sum(counts, term, type_)

        return builders.compute(type_, list(type_.shape), body)

    def of_weight(self, type_: ir.RankedTensorType) -> ir.Value:
        """For each element of a window the sum over batch and places."""
        x, gradient = self.found.x, self._gradient
        rank = len(self.found.window)
        window = [_dim(2 + rank + 1 + i) * s + _dim(2 + i) * d - p for i, (s, p, d) in enumerate(self.found.steps)]
        points = self._points

        def body(at: At) -> ir.Value:
            channel = at[0]

            def term(point: At) -> ir.Value:
                number, *o = point
                places = builders.apply(_map(2 + rank + 1 + rank, window), [*at, *point], ())
                read = _where(self._inside(x, places), x, [number, channel, *places])
                return self._product(read, builders.read(gradient, [number, channel, *o]))

            return self._sum(points, term, type_)

        return builders.compute(type_, list(type_.shape), body)

    def of_bias(self, type_: ir.RankedTensorType) -> ir.Value:
        """For each channel the sum of the result's gradient."""
        gradient = self._gradient
        points = self._points

        def body(at: At) -> ir.Value:
            def term(point: At) -> ir.Value:
                value = builders.read(gradient, [point[0], *at, *point[1:]])
                return _widened(value, self._wide(value.type))

            return self._sum(points, term, type_)

        return builders.compute(type_, list(type_.shape), body)

    @property
    def _points(self) -> list[int]:
        """Batch and places of the result."""
        batch, _, *places = self._gradient.type.shape
        return [batch, *places]

    @property
    def _gradient(self) -> ir.Value:
        assert self.found.gradient is not None, "gradients of a convolution, not itself"
        return self.found.gradient

    def _weight(self, image: ir.Value) -> ir.Value:
        """The weight, with its channels next to each other in memory where those of the image are: lanes run along them. As what is summed:
        a program widens nothing that all of them need."""
        weight = self.found.weight
        if not runs_along(image, 1) or runs_along(weight, 0):
            return weight
        sizes = list(weight.type.shape)
        steps = [1, sizes[0], *(step * sizes[0] for step in row_major(sizes[2:]))]
        wide = self._wide(weight.type.element_type)

        def element(at: At) -> ir.Value:
            return _widened(builders.read(weight, at), wide)

        copy = builders.compute(tensor_type(sizes, wide, steps), sizes, element)
        copy.owner.attributes[STORED] = ir.UnitAttr.get()
        return copy

    def _inside(self, image: ir.Value, places: At) -> list[ir.Value]:
        """The conditions under which `places` are in an image, not in the border around it."""
        sizes = [size for expr in shape_of(image)[2:] if (size := constant(expr)) is not None]
        return [guard for place, size in zip(places, sizes) for guard in (_not_below_0(place), _below(place, size))]

    def _wide(self, element: ir.Type) -> ir.Type:
        """The type that is summed in."""
        return ir.F32Type.get() if element.width < 32 else element

    def _sum(self, sizes: Sequence[int], term: Callable[[At], ir.Value], type_: ir.RankedTensorType) -> ir.Value:
        element, wide = type_.element_type, self._wide(type_.element_type)
        (total,) = builders.reduce("sum", list(sizes), wide, term)
        return total if wide == element else arith.truncf(element, total, **self.rounding)

    def _product(self, padded: ir.Value, other: ir.Value) -> ir.Value:
        wide = self._wide(padded.type)
        return arith.mulf(_widened(padded, wide), _widened(other, wide))


def _where(guards: list[ir.Value], source: ir.Value, at: At) -> ir.Value:
    """The element of `source` at `at`, 0 where a guard does not hold."""
    if not guards:
        return builders.read(source, at)
    element = source.type.element_type
    chosen = scf.IfOp(reduce(arith.andi, guards), [element], has_else=True)
    with ir.InsertionPoint(chosen.then_block):
        scf.YieldOp([builders.read(source, at)])
    with ir.InsertionPoint(chosen.else_block):
        scf.YieldOp([arith.constant(element, 0.0)])
    return chosen.results[0]


def _widened(value: ir.Value, wide: ir.Type) -> ir.Value:
    return value if value.type == wide else arith.extf(wide, value)


def _dim(number: int) -> Expr:
    return Expr.get_dim(number)


def _map(dims: int, results: Sequence[Expr]) -> ir.AffineMap:
    return ir.AffineMap.get(dims, 0, list(results))


def _zero() -> ir.Value:
    return arith.constant(ir.IndexType.get(), 0)


def _not_below_0(place: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.sge, place, _zero())


def _below(place: ir.Value, size: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.slt, place, arith.constant(ir.IndexType.get(), size))
