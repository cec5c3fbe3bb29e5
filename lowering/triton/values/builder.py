"""Building TTIR: operations of `tt` and of upstream dialects in our own context, in generic form. Two builds of MLIR share only text.

Pure operations are hash-consed while their scope lasts: an address or a load's pointer asked for twice is one value, and that is how a
persistent row stays in registers between the loops that read it. Loads with their addresses, and what a scalar operation becomes, are kept
whole beside that: several sums over one window ask for most of theirs again. What does not vary in a loop that takes a step at least is made
before it, loads too: Triton leaves those where they stand, and reads a layer norm's weights again for each row.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bascule.dialect.mlir import arith, ir

from .axis_info import Axes


def element(type_: ir.Type) -> ir.Type:
    """The element of a tensor type; a scalar type itself."""
    return type_.element_type if isinstance(type_, ir.RankedTensorType) else type_


def like(type_: ir.Type, scalar: ir.Type) -> ir.Type:
    """`scalar` in the shape of `type_`."""
    return ir.RankedTensorType.get(type_.shape, scalar) if isinstance(type_, ir.RankedTensorType) else scalar


def asm(text: str, constraints: str, *, packed: int = 1, pure: bool = True) -> dict[str, ir.Attribute]:
    """Of a `tt.elementwise_inline_asm`: PTX, LLVM's constraints, the elements that an instruction takes, whether it does nothing else."""
    return {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get(constraints),
        "packed_element": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), packed),
        "pure": ir.BoolAttr.get(pure),
    }


# Of integers: the operation on complements that gives the complement
OPPOSITE = {
    "arith.select": "arith.select",
    **{
        "arith.minsi": "arith.maxsi",
        "arith.maxsi": "arith.minsi",
        "arith.minui": "arith.maxui",
        "arith.maxui": "arith.minui",
    },
}
SAME = "mov.b32 $0, $1;"
# Marks of a loop around another one, for Triton: one loop is made of both, which reads ahead from one run of the inner one to the next; on
# sm_90 a warp group loads for those that multiply, each a part of the tile.
FLATTEN, SPECIALIZE = "tt.flatten", "tt.warp_specialize"
# Of conditions: what costs next to nothing to make again
AGAIN = {
    *("arith.cmpi", "arith.andi", "arith.ori", "arith.xori", "arith.addi", "arith.subi", "arith.extsi", "math.absi"),
    *("tt.expand_dims", "tt.broadcast"),
}
QUOTIENTS = {"arith.remsi": "arith.divsi", "arith.remui": "arith.divui"}
INVERSE = {"arith.addi": "arith.subi", "arith.subi": "arith.addi", **dict.fromkeys(QUOTIENTS, "arith.addi")}


class Builder:
    """Appends operations to a block; `location` is that of the source operation at hand."""

    def __init__(self, block: ir.Block, location: ir.Location, *, converts_float8: bool = True):
        self.point, self.location = ir.InsertionPoint(block), location
        self.converts_float8 = converts_float8  # whether there are instructions for that
        self.first: ir.InsertionPoint | None = None  # where constants go: before the first operation
        self.scopes: list[dict] = [{}]
        self.before: list[ir.InsertionPoint | None] = [None]  # where what does not vary in a scope goes, if it can
        self.depths: dict[ir.Value, int] = {}  # the scope of a value, if not the outermost
        self.numbers: dict[ir.Value, int | float] = {}  # of the scalar constants
        self.axes = Axes()
        self.i1, self.i8, self.i16, self.i32, self.i64 = (ir.IntegerType.get_signless(n) for n in (1, 8, 16, 32, 64))
        self.f32, self.f64 = ir.F32Type.get(), ir.F64Type.get()

    def op(
        self,
        name: str,
        results: Sequence[ir.Type] = (),
        operands: Sequence[ir.Value] = (),
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        made = ir.Operation.create(
            name, list(results), list(operands), attributes or {}, regions=regions, loc=self.location, ip=self.point
        )
        if self.first is None:
            self.first = ir.InsertionPoint(made)
        self._belong(made.results, len(self.scopes) - 1)
        return made

    def _belong(self, values: Iterable[ir.Value], depth: int) -> None:
        if depth:
            self.depths.update(dict.fromkeys(values, depth))

    def value(
        self, name: str, type_: ir.Type, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute] | None = None
    ) -> ir.Value:
        """The result of a pure operation (or of a load, which nothing in a kernel overwrites before it is read)."""
        if self.axes.claims_too_much(name, operands):
            return self._spelled(name, operands)
        return self._made(name, type_, operands, attributes)

    def _made(
        self,
        name: str,
        type_: ir.Type,
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        key = (name, type_, tuple(operands), tuple(attributes.items()) if attributes else ())
        if (found := self.known(key)) is not None:
            return found
        made = self._outermost(name, type_, operands, attributes)
        self.scopes[self.depths.get(made, 0)][key] = made
        return made

    def known(self, key: Hashable) -> Any:
        """Whatever was made, or kept, for `key`, if that can be used here."""
        for scope in self.scopes:
            if key in scope:
                return scope[key]
        return None

    def keep(self, key: Hashable, made: Any, values: Sequence[ir.Value]) -> None:
        """`made`, of `values`, for `key`, where those can be used: what has one key would be built of the same operations, one by one."""
        self.scopes[max(self.depths.get(value, 0) for value in values)][key] = made

    def _outermost(
        self, name: str, type_: ir.Type, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute] | None
    ) -> ir.Value:
        """The operation, before the loops in which its operands do not vary."""
        depth, least = len(self.scopes) - 1, max((self.depths.get(operand, 0) for operand in operands), default=0)
        point = self.point
        while depth > least and (before := self.before[depth]) is not None:
            depth, point = depth - 1, before
        made = ir.Operation.create(name, [type_], list(operands), attributes or {}, loc=self.location, ip=point)
        if self.first is None:
            self.first = ir.InsertionPoint(made)
        self._belong(made.results, depth)
        return made.results[0]

    def _spelled(self, name: str, operands: Sequence[ir.Value]) -> ir.Value:
        """`name` of integers by complements, -x - 1, of which Triton knows no divisor; LLVM makes one instruction of it again."""
        *condition, x, y = operands
        if name in OPPOSITE:
            sides = [self._complement(x), self._complement(y)]
            return self._complement(self._made(OPPOSITE[name], x.type, [*condition, *sides]))
        if name in QUOTIENTS:
            y = self._made("arith.muli", x.type, [self._made(QUOTIENTS[name], x.type, [x, y]), y])
        off_by_one = self._made(INVERSE[name], x.type, [x, self._complement(y)])
        return self._made(INVERSE[name], x.type, [off_by_one, self.constant(x.type, 1)])

    def _complement(self, x: ir.Value) -> ir.Value:
        return self._made("arith.xori", x.type, [x, self.constant(x.type, -1)])

    @contextmanager
    def inside(self, block: ir.Block, loop: ir.Operation | None = None) -> Iterator[None]:
        """Appends to `block`, in a scope of its own; `loop`: the operation whose every run runs the block."""
        before, self.point = self.point, ir.InsertionPoint(block)
        self.scopes.append({})
        self.before.append(None if loop is None else ir.InsertionPoint(loop))
        self._belong(block.arguments, len(self.scopes) - 1)
        try:
            yield
        finally:
            self.scopes.pop()
            self.before.pop()
            self.point = before

    @contextmanager
    def isolated(self, block: ir.Block) -> Iterator[None]:
        """The same for a region that uses nothing from outside, constants included."""
        before = self.first, self.scopes, self.before
        self.first, self.scopes, self.before = None, [{}], [None]
        try:
            with self.inside(block):
                yield
        finally:
            self.first, self.scopes, self.before = before

    # On values: scalars, or tensors of one shape

    def constant(self, type_: ir.Type, number: int | float) -> ir.Value:
        key = ("constant", type_, str(number))  # as text: -0.0 is not 0.0, nan is nan
        if key in self.scopes[0]:
            return self.scopes[0][key]
        scalar = element(type_)
        if isinstance(scalar, ir.FloatType):
            attribute: ir.Attribute = ir.FloatAttr.get(scalar, float(number))
        else:
            half = 1 << (scalar.width - 1)
            attribute = ir.IntegerAttr.get(scalar, (int(number) + half) % (2 * half) - half)
        if scalar != type_:
            attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
        made = ir.Operation.create(
            "arith.constant", [type_], attributes={"value": attribute}, loc=self.location, ip=self.first or self.point
        ).results[0]
        self.scopes[0][key] = made
        if scalar == type_:
            self.numbers[made] = number
        return made

    def same(self, name: str, *operands: ir.Value) -> ir.Value:
        """An operation whose result has the type of its operands."""
        return self.value(name, operands[0].type, operands)

    def convert(self, name: str, x: ir.Value, to: ir.Type) -> ir.Value:
        return self.value(name, like(x.type, to), [x])

    def compare(self, predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
        floats = isinstance(element(x.type), ir.FloatType)
        number = arith.CmpFPredicate[predicate.upper()] if floats else arith.CmpIPredicate[predicate]
        attributes = {"predicate": ir.IntegerAttr.get(self.i64, number)}
        return self.value("arith.cmpf" if floats else "arith.cmpi", like(x.type, self.i1), [x, y], attributes)

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.value("arith.select", x.type, [condition, x, y])

    def select_unless(self, known: ir.Value, shown: bool, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        """The same, in a branch that is not taken where `known`, of the whole program, says that the condition is `shown`. The branch computes
        the condition: what stands before it each step would take, and a branch of choices alone is none in machine code."""
        key = ("scf.if", known, shown, condition, x, y)
        if (found := self.known(key)) is not None:
            return found
        made = self.op("scf.if", [x.type], [known], regions=2)
        for region, chosen in zip(
            made.regions, (lambda: x if shown else y, lambda: self.select(self._again(condition), x, y))
        ):
            with self.inside(region.blocks.append()):
                self.op("scf.yield", [], [chosen()])
        self.scopes[-1][key] = made.results[0]
        return made.results[0]

    def _again(self, value: ir.Value) -> ir.Value:
        """`value`, made again here with what it is made of in this loop; where nothing else reads what was made before, Triton drops it. LLVM
        does not see that places are those of another branch: it would compute what both share before either."""
        if isinstance(value.owner, ir.Block) or self.depths.get(value, 0) < len(self.scopes) - 2:
            return value
        tensor, op = isinstance(value.type, ir.RankedTensorType), value.owner
        if tensor and value.type.rank == 1 and element(value.type) == self.i32:
            return self.op("tt.elementwise_inline_asm", [value.type], [value], asm(SAME, "=r,r")).results[0]
        if not tensor or op.name not in AGAIN:
            return value
        attributes = {name: op.attributes[name] for name in op.attributes}
        return self.op(op.name, [value.type], [self._again(operand) for operand in op.operands], attributes).results[0]

    def is_nan(self, x: ir.Value) -> ir.Value:
        return self.compare("uno", x, x)

    def number(self, type_: ir.Type, number: int) -> ir.IntegerAttr:
        return ir.IntegerAttr.get(type_, number)

    # Loops

    def loop(
        self,
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        carried: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
        stages: int = 1,
        runs: bool = False,
        mark: str | None = None,
    ) -> list[ir.Value]:
        """`scf.for` over lower, upper and step, which are of one integer type; returns the carried values after it. More than one of
        `stages`: Triton reads so many steps ahead, into shared memory. `runs`: it is known to take a step. `mark`: what Triton does to it and to
        the loop in it, `FLATTEN` or `SPECIALIZE`."""
        types = [value.type for value in carried]
        attributes: dict[str, ir.Attribute] = {"tt.num_stages": self.number(self.i32, stages)} if stages > 1 else {}
        if mark is not None:
            attributes[mark] = ir.UnitAttr.get()
        made = self.op("scf.for", types, [*bounds, *carried], attributes, regions=1)
        block = made.regions[0].blocks.append(bounds[0].type, *types, arg_locs=[self.location] * (1 + len(types)))
        iv, *values = block.arguments
        with self.inside(block, made if runs else None):
            self.op("scf.yield", [], body(iv, values))
        return list(made.results)

    def repeat(
        self,
        carried: Sequence[ir.Value],
        passed: Sequence[ir.Type],
        condition: Callable[[list[ir.Value]], Sequence[ir.Value]],
        body: Callable[[list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`scf.while`: `condition` of the carried values gives an i1 and values of the types `passed`; as long as that holds, `body` of
        these gives the next carried values. Returns the values that came with the last i1."""
        made = self.op("scf.while", passed, carried, regions=2)
        before, after = (
            region.blocks.append(*types, arg_locs=[self.location] * len(types))
            for region, types in zip(made.regions, ([value.type for value in carried], list(passed)))
        )
        with self.inside(before):
            self.op("scf.condition", [], condition(list(before.arguments)))
        with self.inside(after):
            self.op("scf.yield", [], body(list(after.arguments)))
        return list(made.results)
