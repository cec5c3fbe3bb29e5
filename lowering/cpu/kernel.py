"""A kernel as segments, one after the other: each runs on one thread, or its tiles are shared among threads.

A kernel over a domain is one segment. One that runs at a single point (no ranges) is cut at its large loops: a `foreach`
(neighbours together) and a `reduce` are segments of their own; what lies between runs on one thread. Scalars that later segments need are
kept in words beside the arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import kernel_op
from bascule.dialect.ir.shapes import constant
from bascule.dialect.ir.types import scalar_type
from bascule.dialect.mlir import ir

from .body import LOOPS, Block, Body, Node, decode, layout_map
from .builder import Builder, Index, Scalar
from .domain import Domain
from .emitter import Emitter
from .entry import entry
from .indexing import Indexing
from .loops import Reducing
from .memory import Buffer, stored_type
from .plan import LoopPlan, Planner, length, sizes_of
from .reductions import STATE
from .siblings import join_siblings
from .target import Target
from .transcendental import Functions
from .transposition import transposed_reads

BLOCK = 8192  # points of the blocked group in a tile
REDUCE_BLOCK = 32768  # the same for a reduction shared among threads
GRAIN = 8192  # vector ops that pay for one more thread
LARGE = 16384  # points from which a loop of a single-point kernel is shared among threads


@dataclass(eq=False)
class Segment:
    """`loops`: foreach nodes, or one reduce, with their domains; none: `nodes` run on one thread."""

    nodes: list[Node]
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
        self.kernel = kernel_op(function)
        self.arguments = list(function.regions[0].blocks[0].arguments)
        self.symbols = len(symbols_of(function))
        self.body: Body = decode(self.kernel, self.arguments)
        join_siblings(self.body)
        planner = Planner(self.body, target)
        self.plan = planner.plan(self.kernel)
        self.segments = self._segments(planner)
        self._words()

    # Segments

    def _segments(self, planner: Planner) -> list[Segment]:
        block = self.body.block
        if not self._splits(block):
            loop = self.plan.kernel
            keeps = any(node.name in LOOPS for node in block.nodes) or bool(self.plan.serial)
            size = loop.width if keeps else -(-BLOCK // loop.width) * loop.width
            transposed = None if keeps else transposed_reads(self.body, block, loop)
            domain = Domain(block, loop, loop.vector, size, planner.cost, frozenset(self.plan.serial), transposed)
            return [Segment(block.nodes, [domain])]
        segments = [Segment([])]
        for node in block.nodes:
            if not _large(node):
                if segments[-1].domains:
                    segments.append(Segment([]))
                segments[-1].nodes.append(node)
                continue
            domain = self._domain(planner, node)
            if node.name == "bascule.foreach" and segments[-1].domains and not segments[-1].reduces:
                segments[-1].nodes.append(node)
                segments[-1].domains.append(domain)
                continue
            segments.append(Segment([node], [domain], reduces=node.name == "bascule.reduce"))
            if segments[-1].reduces:
                segments.append(Segment([], merges=segments[-1]))
        return [s for s in segments if s.nodes or s.merges]

    def _splits(self, block: Block) -> bool:
        sizes = self.plan.kernel.sizes
        if any(constant(size) != 1 for size in sizes):
            return False
        if any(node.name in ("bascule.compute", "bascule.scan") for node in block.nodes):
            return False  # a row in scratch memory is its thread's own
        return any(_large(node) for node in block.nodes)

    def _domain(self, planner: Planner, node: Node) -> Domain:
        block, sizes = node.blocks[0], sizes_of(node.op)
        reduces = node.name == "bascule.reduce"
        serial = set() if reduces else planner.colliding(block)
        cost, loop = planner.loop(block, sizes, node, serial)
        blocked = loop.vector
        if reduces and blocked < 0 and loop.groups:
            blocked = len(loop.groups) - 1
        size = REDUCE_BLOCK if reduces else BLOCK
        if not reduces and (serial or any(inner.name in LOOPS for inner in block.nodes)):
            size = loop.width
        walked = frozenset(g for g, group in enumerate(loop.groups) if serial & {block.arguments[i] for i in group})
        return Domain(block, loop, blocked, -(-size // loop.width) * loop.width, cost, walked)

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
        return sum(STATE.get(kind, 1) for kind in segment.nodes[0].kinds)

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
        for domain in segment.domains:
            count, points = domain.count(ix, lambda group, loop=domain.loop: _size(ix, symbols, loop, group))
            tiles = ix.add(tiles, count)
            # In 1/1024 of a thread's worth, so that small costs do not vanish.
            worth = ix.add(worth, ix.scale(points, max(1, round(domain.cost * 1024 / GRAIN))))
        threads = ix.add(ix.divide(worth, Index(offset=1024))[0], Index(offset=1))
        b.op("func.return", [], [ix.scalar(tiles), ix.scalar(ix.least(threads, tiles))])

    def _fill_part(self, function: ir.Operation, segment: Segment, functions: Functions) -> None:
        """Runs tiles lower .. upper of a segment, or a serial segment once."""
        b = self._open(function)
        data, lower, upper = function.regions[0].blocks[0].arguments
        e = Emitter(b, self.body, self.plan, self.target, functions)
        self._unpack(e, data, segment)
        if segment.reduces:
            self._reduce_tiles(e, data, segment, (lower, upper))
        elif segment.domains:
            self._foreach_tiles(e, segment, (lower, upper))
        else:
            if segment.merges is not None:
                self._merge(e, data, segment.merges)
            e.emit(Block([], segment.nodes, []))
            for number, word in self.slots.items():
                if number in e.env and any(number in node.results for node in self._made(segment)):
                    self._save(e, data, number, word)
        for memref in e.allocated:
            b.op("memref.dealloc", [], [memref])
        b.op("func.return")

    @staticmethod
    def _made(segment: Segment) -> list[Node]:
        return [*(segment.merges.nodes if segment.merges is not None else []), *segment.nodes]

    def _open(self, function: ir.Operation) -> Builder:
        block = function.regions[0].blocks.append(*function.attributes["function_type"].value.inputs)
        return Builder(block, self.kernel.location, self.target)

    def _unpack(self, e: Emitter, data: ir.Value, segment: Segment) -> None:
        """Arguments and kept scalars from the words."""
        b = e.b
        for i, argument in enumerate(self.arguments):
            number = self.body.numbers[argument]
            if i < self.symbols:
                word = b.value("llvm.load", b.i64, [_word(b, data, i)])
                e.env[number] = Index(b.value("arith.index_cast", b.index, [word]), multiple=1)
                e.symbols.append(e.env[number])
            else:
                element = argument.type.element_type
                pointer = b.value("llvm.load", data.type, [_word(b, data, i)])
                memref = flat(b, pointer, stored_type(element))
                e.buffers[number] = Buffer(memref, scalar_type(element), layout_map(argument.type))
        for argument in self.body.block.arguments:
            e.env[argument] = Index()
        for number in _used(segment):
            if number in self.slots:
                e.define(number, self._load(e, data, self.slots[number], self.body.types[number]))

    def _load(self, e: Emitter, data: ir.Value, word: int, type_: ir.Type) -> Scalar:
        b = e.b
        if isinstance(type_, ir.IndexType):
            value = b.value("llvm.load", b.i64, [_word(b, data, word)])
            return Scalar(b.value("arith.index_cast", b.index, [value]), False, 0)
        return Scalar(b.value("llvm.load", type_, [_word(b, data, word)]), False, 0)

    def _save(self, e: Emitter, data: ir.Value, number: int, word: int) -> None:
        b, value = e.b, e.scalar(number).value
        if isinstance(value.type, ir.IndexType):
            value = b.value("arith.index_cast", b.i64, [value])
        b.op("llvm.store", [], [value, _word(b, data, word)])

    def _foreach_tiles(self, e: Emitter, segment: Segment, bounds: tuple[ir.Value, ir.Value]) -> None:
        """The tiles of all loops of the segment stand in one row, loop after loop; each loop runs those that fall into the bounds."""
        b, ix = e.b, e.ix
        lower, upper = (Index(v, multiple=1) for v in bounds)
        start = Index()
        alone = len(segment.domains) == 1
        for domain in segment.domains:
            first, last = lower, upper
            if not alone:
                count, _ = domain.count(ix, lambda group, loop=domain.loop: _size(ix, e.symbols, loop, group))
                shift = ix.scale(start, -1)
                zero = Index()
                first = ix._elementwise("arith.maxsi", ix.add(lower, shift), zero)
                last = ix.least(ix.add(upper, shift), count)
                start = ix.add(start, count)

            def tile(iv: ir.Value, values: list[ir.Value], domain: Domain = domain) -> list[ir.Value]:
                return domain.run(e, Index(iv, level=b.level, multiple=1), values, self._step(e, domain.body))

            b.loop(ix.scalar(first), ix.scalar(last), b.constant(b.index, 1), [], tile)

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
            state = domain.run(e, Index(iv, level=b.level, multiple=1), reducing.start(), reducing.step)
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

        zero, one = b.constant(b.index, 0), b.constant(b.index, 1)
        reducing.define(b.loop(zero, count, one, reducing.start(), take))


def _large(node: Node) -> bool:
    if node.name not in ("bascule.foreach", "bascule.reduce"):
        return False
    sizes = sizes_of(node.op)
    points = length(sizes, tuple(range(len(sizes))))
    for inner in node.blocks[0].walk():
        if points is not None and inner.name in LOOPS:
            more = length(sizes_of(inner.op), tuple(range(len(sizes_of(inner.op)))))
            points = None if more is None else points * more
    return points is None or points >= LARGE


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


def _partial(b: Builder, partials: ir.Value, tile: ir.Value, width: int, k: int) -> ir.Value:
    at = b.value("arith.muli", b.index, [tile, b.constant(b.index, width)])
    at = b.value("arith.addi", b.index, [at, b.constant(b.index, k)])
    at = b.value("arith.index_cast", b.i64, [at])
    dynamic = ir.DenseI32ArrayAttr.get([-(1 << 31)])  # the index is an operand
    attributes = {"rawConstantIndices": dynamic, "elem_type": ir.TypeAttr.get(b.i64)}
    return b.value("llvm.getelementptr", partials.type, [partials, at], attributes)


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
