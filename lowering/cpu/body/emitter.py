"""Emits a kernel's body as upstream ops: the rules for scalar ops, by name, and for reads, stores and guards.

Where lanes are in force (`lanes` > 1) an op is built on vectors as soon as one of its operands differs from lane to lane.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.body_tree import READS, ZERO, Block, Node
from bascule.dialect.analysis.bodies.costs import DIVISIONS
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.locations import source_of
from bascule.dialect.mlir import ir

from ..functions.reduction_kinds import reductions, scans
from ..functions.transcendental import Functions
from ..values.builder import Builder, Index, Scalar
from ..values.conditions import Both, Comparison, Condition, comparison
from ..values.float_to_integer import to_signed, to_unsigned
from ..values.indexing import Indexing
from ..values.memory import Buffer, Memory
from ..values.narrow_floats import NARROW, narrow, promoted, to_float, widen
from ..values.scalars import Scalars, element, like
from ..values.target import Target
from .schedule import LoopPlan

BUFFERS = (ir.MemRefType, ir.RankedTensorType)
Item = Scalar | Index | Condition
Rule = Callable[["Emitter", Node], None]
RULES: dict[str, Rule] = {}
INDEX_RULES = {"arith.addi": "add", "arith.muli": "multiply", "arith.floordivsi": "floordiv"}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


class Emitter:
    """State of the emission of one function. `env` maps a value's number to what stands for it here."""

    def __init__(self, builder: Builder, body: Body, loops: dict[Node, LoopPlan], target: Target, functions: Functions):
        self.b, self.body, self.loops, self.target, self.functions = builder, body, loops, target, functions
        self.ix = Indexing(builder)
        self.memory = Memory(builder, self.ix)
        self.env: dict[int, Item] = {ZERO: Index()}
        self.buffers: dict[int, Buffer] = {}
        self.symbols: list[Index] = []
        self.allocated: list[ir.Value] = []  # heap memory, to be freed where the function ends
        self.reductions = reductions(self._function("math.exp"))
        self.scans = scans(self._function("math.exp"), self._function("math.log1p"))
        self.tiles: dict[Node, ir.Value] = {}  # reads that are taken from a transposed tile, at its row `row`
        self.row = Index()
        self.held: dict[Node, ir.Value] = {}  # reads that are in registers, as they stand in memory
        self.shifts: dict[
            Node, Index
        ] = {}  # ops that add another number than their own, in one of several loops with one code
        self.ahead: dict[Node, int] = {}  # reads that ask for the memory so many bytes further on
        self.lane: int | None = None  # the loop index that the lanes run along

    def _function(self, name: str) -> Callable[[Scalars, ir.Value], ir.Value]:
        return lambda s, x: self.functions.build(s, name, [x])

    def varies(self, number: int) -> bool:
        """Whether a value may differ from lane to lane."""
        return self.lane is not None and self.lane in self.body.dependence.get(number, ())

    @property
    def lanes(self) -> int:
        return self.ix.width

    def size(self, expr: ir.AffineExpr) -> Index:
        """A size, of the function's symbols."""
        return self.ix.evaluate(expr, (), self.symbols)

    # Items

    def scalar(self, number: int) -> Scalar:
        item = self.env[number]
        if isinstance(item, Scalar):
            return item
        return self.ix.value(item) if isinstance(item, Index) else item.mask(self.b, self.ix)

    def index(self, number: int) -> Index:
        item = self.env[number]
        return item if isinstance(item, Index) else self.ix.of(self.scalar(number))

    def spread(self, x: Scalar) -> ir.Value:
        """`x` with one value a lane."""
        if x.lanes:
            return x.value
        b = self.b
        type_ = ir.VectorType.get([self.lanes], x.value.type)
        key = ("spread", x.value, self.lanes)
        return b.cached(x.level, key, lambda: b.value("vector.broadcast", type_, [x.value], None, x.level))

    def aligned(self, scalars: Sequence[Scalar]) -> tuple[list[ir.Value], bool, int]:
        """The values all as vectors if one of them is, whether that is so, and the scope they are known in."""
        lanes = any(x.lanes for x in scalars)
        level = max((x.level for x in scalars), default=0)
        return [self.spread(x) if lanes else x.value for x in scalars], lanes, level

    def define(self, number: int, scalar: Scalar) -> None:
        is_index = isinstance(element(scalar.value.type), ir.IndexType)
        self.env[number] = self.ix.of(scalar) if is_index else scalar

    def buffer(self, node: Node, operand: int) -> Buffer:
        """The buffer that an operand is: an argument, a destination, or what a loop made."""
        found = self.buffers.get(node.operands[operand])
        if found is None:
            told = f"the CPU lowering has no '{node.name}' of what is neither an argument nor a destination"
            raise UnsupportedError(told, location=source_of(node.op.location))
        return found

    # Emission

    def emit(self, block: Block) -> list[Item]:
        """Emits the ops of `block`; returns what it yields."""
        for node in block.nodes:
            self.b.loc = node.op.location
            if not node.name.startswith("bascule.") and any(isinstance(type_, BUFFERS) for type_ in node.types):
                told = f"a buffer is chosen in a kernel, or made by '{node.name}': no CPU lowering yet"
                raise UnsupportedError(told, location=source_of(node.op.location))
            RULES.get(node.name, elementwise)(self, node)
        return [self.env[number] for number in block.yielded]


def elementwise(e: Emitter, node: Node) -> None:
    """An op that computes each lane by itself, and that is the same op on vectors."""
    dialect = node.name.split(".", 1)[0]
    if dialect not in ("arith", "math") or len(node.results) != 1:
        raise UnsupportedError(f"the CPU lowering has no rule for '{node.name}'", location=source_of(node.op.location))
    if isinstance(node.types[0], ir.IndexType) and node.name in INDEX_RULES:
        x, y = (e.index(number) for number in node.operands)
        e.env[node.results[0]] = getattr(e.ix, INDEX_RULES[node.name])(x, y)
        return
    scalars = [e.scalar(number) for number in node.operands]
    if node.name in DIVISIONS:
        # A lane out of force may hold any divisor, and a division by zero ends the process.
        scalars[1] = divisor(e, scalars[1])
    operands, lanes, level = e.aligned(scalars)
    type_ = ir.VectorType.get([e.lanes], node.types[0]) if lanes else node.types[0]
    if node.name in DIVISIONS:  # not before a loop, or a guard, that may be passed over
        level = e.b.level
    if node.name in e.functions:
        value = function(e, node.name, operands, level)
    elif (
        any(isinstance(element(t), NARROW) for t in (type_, *(v.type for v in operands)))
        and node.name != "arith.select"
    ):
        value = promoted(Scalars(e.b, level), node.name, attributes_of(node), operands, type_)
    else:
        value = e.b.value(node.name, type_, operands, attributes_of(node), level)
    e.define(node.results[0], Scalar(value, lanes, level))


def attributes_of(node: Node) -> dict[str, ir.Attribute]:
    return dict(node.op.attributes.items())


def function(e: Emitter, name: str, operands: list[ir.Value], level: int) -> ir.Value:
    """A transcendental function; of 16-bit floats by way of f32."""
    s = Scalars(e.b, level)
    type_ = element(operands[0].type)
    if not isinstance(type_, NARROW):
        return e.functions.build(s, name, operands)
    return narrow(s, e.functions.build(s, name, [widen(s, x) for x in operands]), type_)


def divisor(e: Emitter, x: Scalar) -> Scalar:
    mask = e.memory.mask
    if mask is None or not x.lanes:
        return x
    level = max(mask.level, x.level)
    return Scalar(Scalars(e.b, level).select(mask.value, x.value, e.b.constant(x.value.type, 1)), True, level)


@rule("arith.constant")
def _constant(e: Emitter, node: Node) -> None:
    attribute = node.op.attributes["value"]
    if isinstance(node.types[0], ir.IndexType):
        e.env[node.results[0]] = Index(offset=attribute.value)
    else:
        key = ("constant", attribute)
        value = e.b.cached(0, key, lambda: e.b.value("arith.constant", node.types[0], [], {"value": attribute}, 0))
        e.env[node.results[0]] = Scalar(value, False, 0)


@rule("affine.apply")
def _apply(e: Emitter, node: Node) -> None:
    if node in e.shifts:
        e.env[node.results[0]] = e.ix.add(e.index(node.operands[0]), e.shifts[node])
        return
    map_ = node.op.attributes["map"].value
    values = [e.index(number) for number in node.operands]
    e.env[node.results[0]] = e.ix.evaluate(map_.results[0], values[: map_.n_dims], values[map_.n_dims :])


@rule("builtin.unrealized_conversion_cast")
def _cast(e: Emitter, node: Node) -> None:
    e.env[node.results[0]] = e.env[node.operands[0]]  # ui8 to i8: one value here


@rule(*READS)
def _load(e: Emitter, node: Node) -> None:
    buffer = e.buffer(node, 0)
    if node in e.held:
        e.define(node.results[0], e.memory.loaded(buffer, e.held[node]))
        return
    if node in e.tiles:
        buffer = replace(buffer, memref=e.tiles[node])
        place = e.ix.add(e.ix.scale(e.row, e.lanes), Index(stride=1))
    else:
        place = e.memory.place(buffer, [e.index(i) for i in node.operands[1:]], e.symbols)
    e.define(node.results[0], e.memory.load(buffer, place))
    if node in e.ahead:
        e.memory.prefetch(buffer, place, e.ahead[node])


@rule("arith.index_cast", "arith.index_castui")
def _index_cast(e: Emitter, node: Node) -> None:
    operand = e.env[node.operands[0]]
    if isinstance(node.types[0], ir.IndexType) and isinstance(operand, Index):
        e.env[node.results[0]] = operand
        return
    x = e.scalar(node.operands[0])
    type_ = like(x.value.type, node.types[0])
    e.define(node.results[0], Scalar(e.b.value(node.name, type_, [x.value], None, x.level), x.lanes, x.level))


@rule("arith.subi")
def _subtract(e: Emitter, node: Node) -> None:
    if not isinstance(node.types[0], ir.IndexType):
        return elementwise(e, node)
    x, y = (e.index(number) for number in node.operands)
    e.env[node.results[0]] = e.ix.add(x, e.ix.scale(y, -1))


@rule("arith.cmpi")
def _compare(e: Emitter, node: Node) -> None:
    if e.lanes > 1 and isinstance(e.body.types[node.operands[0]], ir.IndexType):
        x, y = (e.index(number) for number in node.operands)
        condition = comparison(node.op.attributes["predicate"].value, x, y, e.ix)
        if condition is not None:
            e.env[node.results[0]] = condition
            return
    elementwise(e, node)


@rule("arith.andi", "arith.ori")
def _logical(e: Emitter, node: Node) -> None:
    x, y = (e.env[number] for number in node.operands)
    if isinstance(x, Comparison | Both) and isinstance(y, Comparison | Both):
        e.env[node.results[0]] = Both(x, y, node.name == "arith.ori")
    else:
        elementwise(e, node)


@rule("arith.extf", "arith.truncf")
def _float_to_float(e: Emitter, node: Node) -> None:
    x = e.scalar(node.operands[0])
    e.define(node.results[0], Scalar(to_float(Scalars(e.b, x.level), x.value, node.types[0]), x.lanes, x.level))


@rule("arith.sitofp", "arith.uitofp")
def _integer_to_float(e: Emitter, node: Node) -> None:
    x = e.scalar(node.operands[0])
    s, to = Scalars(e.b, x.level), node.types[0]
    value = s.convert(node.name, x.value, e.b.f32 if isinstance(to, NARROW) else to)
    e.define(node.results[0], Scalar(to_float(s, value, to), x.lanes, x.level))


@rule("arith.fptosi", "arith.fptoui")
def _float_to_integer(e: Emitter, node: Node) -> None:
    """Narrow integers keep the low bits of the 32-bit (unsigned 32: 64-bit) conversion, as the same cast in C++ does here."""
    x = e.scalar(node.operands[0])
    s, to = Scalars(e.b, x.level), node.types[0]
    value = x.value
    if isinstance(element(value.type), NARROW):
        value = widen(s, value)
    unsigned = node.name == "arith.fptoui"
    if unsigned and to.width == 64:
        value = to_unsigned(s, value, to)
    else:
        value = to_signed(s, value, e.b.i64 if to.width == 64 or (unsigned and to.width == 32) else e.b.i32)
    have = element(value.type)
    e.define(node.results[0], Scalar(value if have == to else s.convert("arith.trunci", value, to), x.lanes, x.level))


@rule("arith.mului_extended", "arith.mulsi_extended")
def _extended_product(e: Emitter, node: Node) -> None:
    """The low and the high half of a product, which is made at twice the width."""
    operands, lanes, level = e.aligned([e.scalar(number) for number in node.operands])
    s, type_ = Scalars(e.b, level), node.types[0]
    wide = ir.IntegerType.get_signless(2 * type_.width)
    extend = "arith.extui" if node.name == "arith.mului_extended" else "arith.extsi"
    product = s.op("arith.muli", *(s.convert(extend, x, wide) for x in operands))
    high = s.op("arith.shrui", product, s.constant(product.type, type_.width))
    for number, half in zip(node.results, (product, high)):
        e.define(number, Scalar(s.convert("arith.trunci", half, type_), lanes, level))


@rule("arith.bitcast")
def _bitcast(e: Emitter, node: Node) -> None:
    x = e.scalar(node.operands[0])
    s = Scalars(e.b, x.level)
    e.define(node.results[0], Scalar(s.convert("arith.bitcast", x.value, node.types[0]), x.lanes, x.level))


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant"


@rule("arith.maximumf", "arith.minimumf")
def _extreme(e: Emitter, node: Node) -> None:
    scalars = [e.scalar(number) for number in node.operands]
    operands, lanes, level = e.aligned(scalars)
    if _is_constant(scalars[1].value):
        operands = operands[::-1]  # as in eager's clamps, a zero keeps its sign at a bound of zero
    s, type_ = Scalars(e.b, level), node.types[0]
    is_narrow = isinstance(type_, NARROW)
    if is_narrow:
        operands = [widen(s, v) for v in operands]
    value = s.extreme(operands[0], operands[1], node.name == "arith.maximumf")
    e.define(node.results[0], Scalar(narrow(s, value, type_) if is_narrow else value, lanes, level))
