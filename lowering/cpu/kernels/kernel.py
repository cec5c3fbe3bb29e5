"""A kernel as segments, one after the other: each runs on one thread, or its tiles are shared among threads.

A kernel over a domain is one segment. One that runs at a single point (no ranges) is cut at its large loops: `foreach` loops
(neighbours together) and a `reduce` are segments of their own; what lies between runs on one thread. Scalars that later segments need are
kept in words beside the arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bascule.dialect.analysis.bodies.body_summary import Body, decode
from bascule.dialect.analysis.bodies.body_tree import ACCUMULATORS, Block, Node
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import isolated_kernel
from bascule.dialect.ir.shapes import layout_of
from bascule.dialect.ir.types import carried
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_form import Tasks

from ..body import guards, random, while_loops  # noqa: F401  (importing registers their rules)
from ..body.emitter import Emitter
from ..body.schedule import LoopPlan, Plan, read_plan
from ..functions.transcendental import Functions
from ..values.builder import Builder, Index, Scalar
from ..values.float8 import FLOAT8
from ..values.indexing import Indexing
from ..values.memory import LINE, Buffer, stored_type
from ..values.pairwise_sums import Stretches
from ..values.scalars import Scalars
from ..values.target import Target
from . import scan_loops  # noqa: F401  (importing registers their rules)
from .entry import entry
from .loop_families import Families, Family
from .loops import where_some
from .reduce_loops import Reducing
from .tiles import Domain
from .transposition import transposed

AS_WRITTEN = "noimplicitfloat"  # LLVM is not to put accesses of single lanes together to gathers again (its SLP vectorizer looks at this)
WIDEST = ("prefer-vector-width", "min-legal-vector-width")  # LLVM's: both say which registers there are
SEQ_CST = 7  # LLVM's number of the ordering
AS_BITS = (ir.BF16Type, *FLOAT8)  # floats whose words are integers: LLVM does not move one of them on every processor


@dataclass(eq=False)
class Segment:
    """Loops with their domains: the kernel's own, one reduce, or foreach loops; without, `nodes` run on one thread.

    `families[k]`: the loops that domain k stands for, where there are several (`loop_families.py`).
    """

    nodes: list[Node]
    families: dict[int, Family] = field(default_factory=dict)
    domains: list[Domain] = field(default_factory=list)
    merges: "Segment | None" = None  # the reduce whose partial results this serial segment puts together first
    tiles_word: int = -1
    partials_word: int = -1
    reduces: bool = False  # whether the loop is a reduce


class KernelFunction:
    """A kernel function of the program stage, on its way to machine code."""

    def __init__(self, function: ir.Operation, target: Target):
        self.name = function.attributes["sym_name"].value
        self.target = target
        self.kernel = isolated_kernel(function)
        self.arguments = list(function.regions[0].blocks[0].arguments)
        self.symbols = len(symbols_of(function))
        self.body: Body = decode(self.kernel, self.arguments)
        self.positions = {self.body.numbers[argument]: i for i, argument in enumerate(self.arguments)}
        self.plan: Plan = read_plan(self.kernel, self.body)
        self.segments = self._whole() if None in self.plan.tasks else self._split()
        self._words()

    # Segments

    def _whole(self) -> list[Segment]:
        block = self.body.block
        return [Segment(block.nodes, domains=[_domain(block, self.plan.kernel, self.plan.tasks[None])])]

    def _split(self) -> list[Segment]:
        positions = {number: i for number, i in self.positions.items() if i >= self.symbols}
        loops, tasks = self.plan.loops, self.plan.tasks
        segments, families = [Segment([])], Families(self.body, positions, loops)
        for node in self.body.block.nodes:
            last = segments[-1]
            if node not in tasks:
                if last.domains and node.name not in ("bascule.store", "bascule.foreach"):
                    last = segments[-2]  # a foreach gives no values: what follows may as well come before it
                elif last.domains:
                    last = Segment([])
                    segments.append(last)
                last.nodes.append(node)
            elif node.name == "bascule.reduce":
                domain = _domain(node.blocks[0], loops[node], tasks[node])
                segments.append(Segment([node], domains=[domain], reduces=True))
                segments.append(Segment([], merges=segments[-1]))
            else:
                if not last.domains:
                    last, families = Segment([]), Families(self.body, positions, loops)
                    segments.append(last)
                family = families.add(node)
                if family is not None:
                    last.families[len(last.domains)] = family
                    last.nodes.append(node)
                    last.domains.append(_domain(node.blocks[0], loops[node], tasks[node]))
        return [s for s in segments if s.nodes or s.merges]

    # Words: arguments, scalars kept for later segments, tile counts, pointers to partial results

    def _words(self) -> None:
        self.slots: dict[int, int] = {}  # value number -> word
        words = len(self.arguments)
        made: dict[int, int] = {}
        for i, segment in enumerate(self.segments):
            for number in _used(segment):
                if made.get(number, i) != i and number not in self.slots:
                    self.slots[number] = words
                    words += 1
            source = segment.merges if segment.merges is not None else None
            for node in [*(source.nodes if source else []), *([] if segment.domains else segment.nodes)]:
                made.update(dict.fromkeys(node.results, i))
        for segment in self.segments:
            if segment.domains:
                segment.tiles_word, words = words, words + 1
            if segment.reduces:
                segment.partials_word, words = words, words + 1
        self.words = words

    # Text and functions

    def skeleton(self) -> str:
        """The entry, with declarations of the functions that `fill` writes."""
        segments = [(s.tiles_word, s.partials_word, self._width(s)) for s in self.segments]
        return entry(self.name, self.symbols, len(self.arguments), self.words, segments)

    def _width(self, segment: Segment) -> int:
        """Words of a partial result."""
        if not segment.reduces:
            return 0
        return sum(ACCUMULATORS.get(kind, 1) for kind in segment.nodes[0].kinds)

    def fill(self, table: ir.SymbolTable, functions: Functions) -> None:
        """Writes the bodies of the functions declared by `skeleton`."""
        for i, segment in enumerate(self.segments):
            if segment.domains:
                self._fill_tiles(table[f"{self.name}__tiles{i}"].operation, segment)
            self._fill_part(table[f"{self.name}__part{i}"].operation, segment, functions)

    def _fill_tiles(self, function: ir.Operation, segment: Segment) -> None:
        """The number of tiles, and of threads that they are worth."""
        b = self._open(function)
        ix = Indexing(b)
        symbols = [Index(v, multiple=1) for v in function.regions[0].blocks[0].arguments]
        tiles, worth = Index(), Index()
        for k, domain in enumerate(segment.domains):
            count, points = domain.count(ix, partial(_size, ix, symbols, domain.loop))
            members = len(segment.families[k].members) if k in segment.families else 1
            count, points = ix.scale(count, members), ix.scale(points, members)
            tiles = ix.add(tiles, count)
            # In 1/1024 of a thread's worth, so that small loops do not vanish.
            worth = ix.add(worth, ix.divide(ix.scale(points, 1024), Index(offset=domain.tasks.grain))[0])
        threads = ix.add(ix.divide(worth, Index(offset=1024))[0], Index(offset=1))
        b.op("func.return", [], [ix.scalar(tiles), ix.scalar(ix.least(threads, tiles))])

    def _fill_part(self, function: ir.Operation, segment: Segment, functions: Functions) -> None:
        """Runs tiles lower .. upper of a segment, or a serial segment once."""
        b = self._open(function)
        data, lower, upper = function.regions[0].blocks[0].arguments
        e = Emitter(b, self.body, self.plan.loops, self.target, functions)
        self._unpack(e, data, segment)
        if segment.reduces:
            self._reduce_tiles(e, data, segment, (lower, upper))
        elif segment.domains:
            self._foreach_tiles(e, data, segment, (lower, upper))
        else:
            if segment.merges is not None:
                self._merge(e, data, segment.merges)
            e.emit(Block([], segment.nodes, []))
            for number, word in self.slots.items():
                if number in e.env and any(number in node.results for node in self._made(segment)):
                    self._save(e, data, number, word)
        for memref in e.allocated:
            b.op("memref.dealloc", [], [memref])
        if e.memory.past_caches:  # no other store orders these before what tells other threads of them
            b.op("llvm.fence", attributes={"ordering": ir.IntegerAttr.get(b.i64, SEQ_CST)})
        b.op("func.return")
        _tell_llvm(function, e)

    @staticmethod
    def _made(segment: Segment) -> list[Node]:
        return [*(segment.merges.nodes if segment.merges is not None else []), *segment.nodes]

    def _open(self, function: ir.Operation) -> Builder:
        block = function.regions[0].blocks.append(*function.attributes["function_type"].value.inputs)
        return Builder(block, self.kernel.location, self.target)

    def _unpack(self, e: Emitter, data: ir.Value, segment: Segment) -> None:
        """Arguments and kept scalars from the words."""
        b = e.b
        used = _used(segment)
        for i, argument in enumerate(self.arguments):
            number = self.body.numbers[argument]
            if i < self.symbols:
                word = b.value("llvm.load", b.i64, [_word(b, data, i)])
                symbol = Index(b.value("arith.index_cast", b.index, [word]), multiple=1)
                e.env[number] = symbol
                e.symbols.append(symbol)
            elif number in used:
                e.buffers[number] = self._buffer(b, _word(b, data, i), number)
        for argument in self.body.block.arguments:
            e.env[argument] = Index()
        for number in used:
            if number in self.slots:
                e.define(number, self._load(e, data, self.slots[number], self.body.types[number]))

    def _buffer(self, b: Builder, word: ir.Value, number: int) -> Buffer:
        """The buffer whose address stands in a word, of the type of argument `number`."""
        type_ = self.arguments[self.positions[number]].type
        pointer = b.value("llvm.load", word.type, [word])
        memref = flat(b, pointer, stored_type(type_.element_type))
        aligned = _starts_at_line(b, pointer) if number in self.plan.nontemporal else None
        return Buffer(memref, carried(type_.element_type), layout_of(type_), level=b.level, aligned=aligned)

    def _load(self, e: Emitter, data: ir.Value, word: int, type_: ir.Type) -> Scalar:
        b = e.b
        if isinstance(type_, ir.IndexType):
            value = b.value("llvm.load", b.i64, [_word(b, data, word)])
            return Scalar(b.value("arith.index_cast", b.index, [value]), False, 0)
        if isinstance(type_, AS_BITS):
            value = b.value("llvm.load", ir.IntegerType.get_signless(type_.width), [_word(b, data, word)])
            return Scalar(b.value("arith.bitcast", type_, [value]), False, 0)
        return Scalar(b.value("llvm.load", type_, [_word(b, data, word)]), False, 0)

    def _save(self, e: Emitter, data: ir.Value, number: int, word: int) -> None:
        b, value = e.b, e.scalar(number).value
        if isinstance(value.type, ir.IndexType):
            value = b.value("arith.index_cast", b.i64, [value])
        elif isinstance(value.type, AS_BITS):
            value = b.value("arith.bitcast", ir.IntegerType.get_signless(value.type.width), [value])
        b.op("llvm.store", [], [value, _word(b, data, word)])

    def _foreach_tiles(self, e: Emitter, data: ir.Value, segment: Segment, bounds: tuple[ir.Value, ir.Value]) -> None:
        """The tiles of all loops of the segment stand in one row, loop after loop; each loop runs those that fall into the bounds."""
        b, ix = e.b, e.ix
        lower, upper = (Index(v, multiple=1) for v in bounds)
        start = Index()
        for k, domain in enumerate(segment.domains):
            count, _ = domain.count(ix, partial(_size, ix, e.symbols, domain.loop))
            if count.constant == 0:
                continue  # what has no elements may have any strides: nothing that can be written holds for them
            family = segment.families.get(k)
            members = len(family.members) if family is not None else 1
            first, last = lower, upper
            if len(segment.domains) > 1:
                shift = ix.scale(start, -1)
                first = ix.greatest(ix.add(lower, shift), Index())
                last = ix.least(ix.add(upper, shift), ix.scale(count, members))
                start = ix.add(start, ix.scale(count, members))

            def tile(iv: ir.Value, values: list[ir.Value], k=k, domain=domain, family=family, count=count):
                number = Index(iv, level=b.level, multiple=1)
                if family is not None and len(family.members) > 1:
                    member, number = ix.divide(number, count)
                    self._take_buffers(e, data, k, family, member)
                counted = [Index(value, level=b.level, multiple=1) for value in values]
                digits = counted or domain.digits(e, number)
                domain.run(e, digits, [], self._step(e, domain.body))
                return [ix.scalar(digit) for digit in domain.following(e, digits)] if counted else []

            def tiles(first=first, last=last, tile=tile, domain=domain, alone=members == 1) -> list[ir.Value]:
                start = domain.digits(e, first) if alone and domain.is_counted(e) else []
                digits = [ix.scalar(digit) for digit in start]
                b.loop(ix.scalar(first), ix.scalar(last), b.constant(b.index, 1), digits, tile)
                return []

            e.shifts.clear()
            outside = dict(e.buffers)
            if len(segment.domains) > 1:
                where_some(e, count, [], tiles)
            else:  # else this is not called
                tiles()
            e.buffers.update(outside)  # those of a member are known inside its loop only

    def _take_buffers(self, e: Emitter, data: ir.Value, k: int, family: Family, member: Index) -> None:
        """The buffers and offsets of loop number `member` of a family stand for those of its leader. Which they are is a constant table."""
        b, width = e.b, len(family.buffers) + len(family.shifts)
        table = _table(b, k, [number for numbers in family.members for number in numbers])
        row = e.ix.scalar(e.ix.scale(member, width))
        for i, number in enumerate(family.buffers):
            at = b.value("arith.addi", b.index, [row, b.constant(b.index, i)])
            word = b.value("memref.load", b.i64, [table, at])
            e.buffers[number] = self._buffer(b, _element(b, data, word), number)
        for i, node in enumerate(family.shifts, len(family.buffers)):
            if len({numbers[i] for numbers in family.members}) > 1:
                at = b.value("arith.addi", b.index, [row, b.constant(b.index, i)])
                offset = b.value("arith.index_cast", b.index, [b.value("memref.load", b.i64, [table, at])])
                e.shifts[node] = Index(offset, level=b.level, multiple=1)

    @staticmethod
    def _step(e: Emitter, block: Block) -> Callable:
        def step(values: list[ir.Value]) -> list[ir.Value]:
            e.emit(block)
            return values

        return step

    def _reduce_tiles(self, e: Emitter, data: ir.Value, segment: Segment, bounds: tuple[ir.Value, ir.Value]) -> None:
        b = e.b
        (domain,) = segment.domains
        partials = b.value("llvm.load", data.type, [_word(b, data, segment.partials_word)])
        width = self._width(segment)

        def tile(iv: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            reducing = Reducing(e, segment.nodes[0], domain.loop)
            number = Index(iv, level=b.level, multiple=1)
            state = domain.run(e, domain.digits(e, number), reducing.start(), reducing.step, reducing.stretches)
            for k, value in enumerate(reducing.folded(state)):
                b.op("llvm.store", [], [value, _partial(b, partials, iv, width, k)])
            return carried

        b.loop(*bounds, b.constant(b.index, 1), [], tile)

    def _merge(self, e: Emitter, data: ir.Value, segment: Segment) -> None:
        """Puts the partial results of a reduction together, in order."""
        b = e.b
        (domain,) = segment.domains
        partials = b.value("llvm.load", data.type, [_word(b, data, segment.partials_word)])
        tiles = b.value("llvm.load", b.i64, [_word(b, data, segment.tiles_word)])
        count = b.value("arith.index_cast", b.index, [tiles])
        width = self._width(segment)
        scalar = LoopPlan(domain.loop.sizes, domain.loop.groups, -1, 1)
        reducing = Reducing(e, segment.nodes[0], scalar)

        def take(iv: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            parts = [
                b.value("llvm.load", value.type, [_partial(b, partials, iv, width, k)]) for k, value in enumerate(state)
            ]
            return reducing.merge(state, parts)

        start = reducing.folded(reducing.start())
        stretches = Stretches(lambda values: start, reducing.merge)
        reducing.define(stretches.loop(b, (b.constant(b.index, 0), count), 1, None, start, take))


def _domain(block: Block, loop: LoopPlan, tasks: Tasks) -> Domain:
    return Domain(block, loop, tasks, transposed(block, loop, tasks))


def _used(segment: Segment) -> set[int]:
    """Numbers of the values that a segment reads."""
    used: set[int] = set()
    todo = [Block([], segment.nodes, [])]
    while todo:
        block = todo.pop()
        used.update(block.yielded)
        for node in block.nodes:
            used.update(node.operands)
            todo += node.blocks
    return used


def _size(ix: Indexing, symbols: list[Index], loop: LoopPlan, group: tuple[int, ...]) -> Index:
    total = Index(offset=1)
    for i in group:
        total = ix.multiply(total, ix.evaluate(loop.sizes[i], (), symbols))
    return total


def _word(b: Builder, data: ir.Value, number: int) -> ir.Value:
    """The address of word `number`."""
    attributes = {"rawConstantIndices": ir.DenseI32ArrayAttr.get([number]), "elem_type": ir.TypeAttr.get(b.i64)}
    return b.value("llvm.getelementptr", data.type, [data], attributes)


def _table(b: Builder, k: int, numbers: list[int]) -> ir.Value:
    """A constant of the module, number `k` of the function being built: `memref<nxi64>` of `numbers`."""
    function = b.scopes[0].block.owner.operation
    count = len(numbers)
    type_ = ir.MemRefType.get([count], b.i64)
    name = f"{function.attributes['sym_name'].value}__table{k}"
    values = ir.DenseElementsAttr.get(
        [ir.IntegerAttr.get(b.i64, n) for n in numbers], ir.RankedTensorType.get([count], b.i64)
    )
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(type_),
        "initial_value": values,
        "constant": ir.UnitAttr.get(),
    }
    ir.Operation.create("memref.global", attributes=attributes, loc=b.loc, ip=ir.InsertionPoint(function))
    return b.value("memref.get_global", type_, [], {"name": ir.FlatSymbolRefAttr.get(name)}, 0)


def _starts_at_line(b: Builder, pointer: ir.Value) -> ir.Value:
    """Whether the memory at `pointer` starts at a line of the caches."""
    address = b.value("llvm.ptrtoint", b.i64, [pointer])
    inside = b.value("arith.andi", b.i64, [address, b.constant(b.i64, LINE - 1)])
    return Scalars(b).compare("eq", inside, b.constant(b.i64, 0))


def _partial(b: Builder, partials: ir.Value, tile: ir.Value, width: int, k: int) -> ir.Value:
    at = b.value("arith.muli", b.index, [tile, b.constant(b.index, width)])
    at = b.value("arith.addi", b.index, [at, b.constant(b.index, k)])
    return _element(b, partials, b.value("arith.index_cast", b.i64, [at]))


def _element(b: Builder, words: ir.Value, at: ir.Value) -> ir.Value:
    """The address of word number `at`, an i64 value."""
    dynamic = ir.DenseI32ArrayAttr.get([-(1 << 31)])  # the index is an operand
    attributes = {"rawConstantIndices": dynamic, "elem_type": ir.TypeAttr.get(b.i64)}
    return b.value("llvm.getelementptr", words.type, [words, at], attributes)


def flat(b: Builder, pointer: ir.Value, element: ir.Type) -> ir.Value:
    """The memory at `pointer` as `memref<?xelement>`. Its size is never asked for."""
    descriptor = ir.Type.parse("!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>")
    value = b.value("llvm.mlir.poison", descriptor, [])
    zero, one = (b.value("llvm.mlir.constant", b.i64, [], {"value": ir.IntegerAttr.get(b.i64, n)}) for n in (0, 1))
    for part, at in ((pointer, [0]), (pointer, [1]), (zero, [2]), (one, [3, 0]), (one, [4, 0])):
        attributes = {"position": ir.DenseI64ArrayAttr.get(at)}
        value = b.value("llvm.insertvalue", descriptor, [value, part], attributes)
    type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element)
    return b.value("builtin.unrealized_conversion_cast", type_, [value])


def _tell_llvm(function: ir.Operation, e: Emitter) -> None:
    """How LLVM is to compile a function whose body is written."""
    told: list[ir.Attribute] = []
    if e.memory.one_by_one:
        told.append(ir.StringAttr.get(AS_WRITTEN))
    if e.target.most:
        bits = ir.StringAttr.get(str(e.target.vector_bits))
        told += [ir.ArrayAttr.get([ir.StringAttr.get(name), bits]) for name in WIDEST]
    if told:
        function.attributes["llvm.passthrough"] = ir.ArrayAttr.get(told)
