"""`reduce` loops, of one kind or several, along lanes of their own or those of the loop around."""

from dataclasses import dataclass, replace
from itertools import accumulate

from bascule.dialect.analysis.bodies.body_tree import ACCUMULATORS, Block, Node
from bascule.dialect.mlir import ir

from ..body.emitter import Emitter, rule
from ..body.schedule import LoopPlan, length
from ..functions.reduction_kinds import Kind, Reduction, Values
from ..functions.welford import ShiftedWelford, Welford, WelfordOfLanes
from ..values.builder import Index, Scalar
from ..values.lanes import extract, halves
from ..values.narrow_floats import NARROW, narrow, widen
from ..values.pairwise_sums import Stretches
from ..values.scalars import Scalars, element, is_float, like
from .loops import group_size, walk


def position(e: Emitter, block: Block, plan: LoopPlan) -> Index:
    """The row-major number of the point."""
    total = Index()
    for argument, size in zip(block.arguments, plan.sizes):
        total = e.ix.add(e.ix.multiply(total, e.size(size)), e.index(argument))
    return total


@dataclass
class Reducing:
    """A `reduce` under way, of one or more kinds (joined by the schedule). Accumulators are scalars, or vectors of `lanes`: lanes of the
    reduction's own, or those of the loop around. `vectors`: how many vectors of its own lanes there are, if that is known and all are whole.
    """

    e: Emitter
    node: Node
    plan: LoopPlan
    vectors: int | None = None

    def __post_init__(self) -> None:
        e, self.block = self.e, self.node.blocks[0]
        self.kinds: list[Reduction] = [e.reductions[kind] for kind in self.node.kinds]
        self.own = e.lanes == 1 and self.plan.vector >= 0
        if self.own:
            whole = _whole(self.plan)
            self.kinds = [
                kind.of_all_lanes(whole, self.vectors) if isinstance(kind, Kind | Welford) else kind
                for kind in self.kinds
            ]
        varies = any(e.varies(number) for number in self.node.results)
        self.lanes = self.plan.width if self.own else e.lanes if varies else 1

    def _parts(self, state: Values) -> list[tuple[Reduction, Values]]:
        """Each kind with its accumulators."""
        parts, at = [], 0
        for name, kind in zip(self.node.kinds, self.kinds):
            count = ACCUMULATORS.get(name, 1)
            parts.append((kind, state[at : at + count]))
            at += count
        return parts

    def start(self) -> Values:
        starts = []
        for kind, number in zip(self.kinds, self.block.yielded):
            type_ = self._type(number)
            vector = ir.VectorType.get([self.lanes], type_) if self.lanes > 1 else type_
            starts.append(kind.start(Scalars(self.e.b), vector))
        self.widths = [len(start) for start in starts]
        return [x for start in starts for x in start]

    def _type(self, number: int) -> ir.Type:
        """The type that the values `number` are accumulated in: f32 for those of 16 and 8 bits."""
        type_ = self.e.body.types[number]
        return self.e.b.f32 if isinstance(type_, NARROW) else type_

    def _yielded(self, number: int) -> Scalar:
        x = self.e.scalar(number)
        if not isinstance(element(x.value.type), NARROW):
            return x
        return Scalar(widen(Scalars(self.e.b, x.level), x.value), x.lanes, x.level)

    @property
    def has_first(self) -> bool:
        """Whether a kind starts from the first vector."""
        return any(isinstance(kind, ShiftedWelford) for kind in self.kinds)

    def first(self, values: Values) -> Values:
        """`step` at the first vector."""
        e, parts = self.e, list[Values]()
        e.emit(self.block)
        for (kind, part), number in zip(self._running(values), self.block.yielded):
            if isinstance(kind, ShiftedWelford):
                parts.append(kind.first(Scalars(e.b), e.spread(self._yielded(number))))
            else:
                parts.append(self._taken(kind, part, number))
        self.widths = [len(part) for part in parts]
        return [x for part in parts for x in part]

    def _running(self, state: Values) -> list[tuple[Reduction, Values]]:
        """Each kind with what it carries around the loop."""
        ends = list(accumulate(self.widths))
        return [(kind, state[end - width : end]) for kind, width, end in zip(self.kinds, self.widths, ends)]

    def step(self, values: Values) -> Values:
        self.e.emit(self.block)
        running = zip(self._running(values), self.block.yielded)
        return [x for (kind, part), number in running for x in self._taken(kind, part, number)]

    @property
    def stretches(self) -> Stretches | None:
        """Of what is carried around the loop, if some of it is a sum of floats."""
        types = map(self._type, self.block.yielded)
        sums = any(kind.sums and is_float(type_) for kind, type_ in zip(self.kinds, types))
        return Stretches(self._fresh, self._close) if sums else None

    def _fresh(self, values: Values) -> Values:
        return [x for kind, part in self._running(values) for x in kind.fresh(Scalars(self.e.b), part)]

    def _close(self, before: Values, after: Values) -> Values:
        pairs = zip(self._running(before), self._running(after))
        return [x for (kind, old), (_, new) in pairs for x in kind.close(Scalars(self.e.b), old, new)]

    def _taken(self, kind: Reduction, state: Values, number: int) -> Values:
        """`state` of a kind after the value `number`."""
        e, x, place = self.e, self._yielded(number), None
        # Lanes of the loop around that are out of force may accumulate what they like.
        mask = e.memory.mask.value if self.own and e.memory.mask is not None else None
        if kind.positions:
            at = e.ix.value(position(e, self.block, self.plan))
            place = e.spread(at) if self.lanes > 1 else at.value
            place = e.b.value("arith.index_cast", like(place.type, e.b.i64), [place])
        return kind.take(Scalars(e.b), state, e.spread(x) if self.lanes > 1 else x.value, mask, place)

    def folded(self, state: Values) -> Values:
        """One set of accumulators from what is carried around the loop: of the reduction's own lanes together, of others for each lane."""
        s = Scalars(self.e.b)
        close = fold if self.own else closed
        return [x for kind, part in self._running(state) for x in close(s, kind, part)]

    def merge(self, x: Values, y: Values) -> Values:
        pairs = zip(self._parts(x), self._parts(y))
        return [value for (kind, a), (_, b) in pairs for value in kind.merge(Scalars(self.e.b), a, b)]

    def define(self, state: Values) -> None:
        e = self.e
        results = [x for kind, part in self._parts(state) for x in kind.finish(Scalars(e.b), part)]
        for number, value in zip(self.node.results, results):
            if isinstance(e.body.types[number], NARROW):
                value = narrow(Scalars(e.b), value, e.body.types[number])
            e.env[number] = Scalar(value, self.lanes > 1 and not self.own, e.b.level)


def _whole(plan: LoopPlan) -> bool:
    """Whether the lanes' group is known to be so many whole vectors."""
    lanes = length(tuple(plan.sizes[i] for i in plan.groups[plan.vector]))
    return lanes is not None and lanes % plan.width == 0


def _vectors(plan: LoopPlan) -> int | None:
    """How many vectors a loop takes that has lanes and no other groups, if they are whole and known."""
    if plan.vector < 0 or len(plan.groups) > 1:
        return None
    lanes = length(tuple(plan.sizes[i] for i in plan.groups[plan.vector]))
    return None if not lanes or lanes % plan.width else lanes // plan.width


@rule("bascule.reduce")
def _reduce(e: Emitter, node: Node) -> None:
    plan = e.loops[node]
    short = _is_short(e, plan)
    if short is None:
        reducing, state = _walked(e, node, plan)
        return reducing.define(state)
    narrow = replace(plan, width=e.target.lanes)
    state = e.b.branch(short, lambda: _walked(e, node, narrow)[1], lambda: _walked(e, node, plan)[1])
    Reducing(e, node, plan).define(state)


def _walked(e: Emitter, node: Node, plan: LoopPlan) -> tuple[Reducing, Values]:
    """The loop, and one set of accumulators."""
    reducing = Reducing(e, node, plan, _vectors(plan))
    first = reducing.first if reducing.has_first else None
    state = walk(e, reducing.block, plan, reducing.start(), reducing.step, first, reducing.stretches)
    return reducing, reducing.folded(state)


def _is_short(e: Emitter, plan: LoopPlan) -> ir.Value | None:
    """Whether a row has so few points that the lanes are those of one register; None where none has."""
    if e.lanes > 1 or not plan.short or plan.width <= e.target.lanes:
        return None
    points = e.ix.scalar(group_size(e, plan, plan.groups[plan.vector]))
    return Scalars(e.b).compare("ule", points, e.b.constant(e.b.index, plan.short))


def closed(s: Scalars, kind: Reduction, state: Values) -> Values:
    """The accumulators of each lane."""
    return kind.closed(s, state) if isinstance(kind, Welford) else state


def fold(s: Scalars, kind: Reduction, state: Values) -> Values:
    """One set of accumulators from those of all lanes: halves are merged until one lane is left."""
    if isinstance(kind, WelfordOfLanes | ShiftedWelford):
        return kind.fold(s, state)
    while state[0].type.shape[0] > 1:
        pairs = [halves(s, x) for x in state]
        state = kind.merge(s, [low for low, _ in pairs], [high for _, high in pairs])
    return [extract(s, x, 0) for x in state]
