"""The pass `inline-producers`: fuses pointwise producers into their consumers."""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.backward_slice import needed
from ...analysis.bodies.body_summary import PRODUCERS, Access, Body, decode, readers_of
from ...analysis.bodies.costs import tensor_bytes
from ...analysis.bodies.gather_reads import gathers, reads_by_data
from ...analysis.products.windows import Window, overlap, window_of
from ...fusion.attention_parts import Sides, addends_read, is_contraction
from ...fusion.inlining import Inliner
from ...fusion.members import Member
from ...fusion.own_work import BYTE, own_work
from ...ir.attribute_names import INLINED, TUNED_PRODUCT
from ...ir.functions import STORED, graph_functions
from ...ir.types import byte_width
from ...mlir import ir
from ...remarks.attribute import keep_remarks
from ...steering.asking import is_steered, may_fuse
from ...steering.hooks import Fusion
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk

# Work is counted in additions.
CHEAP = 6  # work of an element's own, at most, that is repeated rather than stored
SUMMED = (
    24  # work of an element, at most, that a GPU repeats in sums of columns: it hides behind their reads of two tensors
)
BESIDE = 0.1  # of what is counted: small tensors and ragged ends beside it
# Work that takes a GPU as long as moving a byte, where windows that overlap repeat it. Of bf16, 3 x 3 after a batch norm and relu
# is faster with it, 5 x 5, or 3 x 3 after silu, stored: on an H200, 2026-11-29 (benchmarks/window_prologues.py).
WINDOWED = 7.0
SMALL = 1 << 18  # bytes of a tensor, at most, that stays in a cache: reading it again is free
# Work of all elements of a function of indices, as often as they are read, for which no other kernel is worth it. A CPU does short rows
# element by element: a rotary embedding of 3 x 4 x 16 x 8 takes 0.03 ms with its tables in memory, 0.12 without (AVX-512, 2026-11-29).
LITTLE = {"cpu": 1 << 13}


@dataclass(frozen=True)
class InlineProducers(Pass):
    """Takes the tensor stage; leaves fewer computes, with larger bodies.

    Inlines a pointwise compute into its consumers where that is no loss:

    - one consumer reads each element about once; or
    - it is cheap to repeat, and reads no more bytes than its result has.

    Windows that overlap, as those of a convolution, read an element once in memory and compute it again in each: on `target` cuda that is what
    decides, as often as it is left once `unroll-windows` has computed neighbours together.

    A result that is needed in memory anyway (by a call, a view, the return) is inlined only where its readers then read no more bytes. A
    compute with a reduction is left to `form-kernels`, unless it is a window of up to `max-window` elements that is read once, or a product
    that was measured as a kernel (`bascule.tuned_product`), which goes along with the one pointwise compute that reads it, or part of it.
    A scan on a GPU takes no such window: its steps hold no loops. On `target` cpu a gather is not repeated: vectors gather element by element.
    On `target` cuda a factor of a product stays that is computed from another: `fuse-attention` and `fuse-products` have both in one kernel.
    On `target` cuda none of floats is by scores of several of a batch: they are computed from products, whose tiles would wait for an index and
    then for what it names. Nor is a sum of what is computed from products a window: `fuse-products` has both in one kernel.
    No body grows beyond `max-ops` ops or reads more than `max-reads` tensors.

    What is marked `bascule.inlined`, as the widening of a matrix that a product reads in few bits, is inlined whatever it costs.

    On `target` cuda a cheap function of indices alone (a causal mask) is repeated wherever it is read: that takes no longer than reading it. And
    three kinds of cheap computes are repeated instead of stored, where that moves no more bytes:

    - one reader waits for sums of columns of it (the gradient of a relu before a batch norm): it is inlined into the sums and that reader, and
      rows need not be split so that both find them in a cache;
    - some readers reduce it, and all others wait for these through a call (the gate of a squeeze and excitation): no kernel holds both;
    - one kernel reads it, and one more after a call (a residual): it is not stored for that one, nor rounded.
    """

    name: ClassVar[str] = "inline-producers"
    takes: ClassVar[str] = VALUES
    max_ops: int = 600
    max_reads: int = 32
    max_window: int = 16
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        with module.context:
            simplifier = Simplifier()
            for graph in graph_functions(module):
                _Graph(graph, self, simplifier).run()


class _Graph(GraphWalk):
    """One graph function; `bodies` are counted as if what is decided so far were inlined."""

    def __init__(self, graph: ir.Operation, options: InlineProducers, simplifier: Simplifier):
        super().__init__(graph)
        self.options = options
        self.indexing = Indexing(self.symbols, simplifier)
        # Result -> body, in program order.
        self.bodies = {op.results[0]: Body(op) for op in self.ops if op.name in PRODUCERS}
        self.uses = readers_of(self.bodies.values())
        self.inlined: dict[ir.Value, ir.Operation] = {}
        self.looping: set[ir.Value] = set()  # results whose bodies hold reductions, inlined ones included
        self.measured: set[ir.Value] = (
            set()
        )  # results that hold a product which was measured as a kernel, inlined ones included
        # Result that holds a measured product -> its dims that go through the rows of that, and through the columns.
        self.sides: dict[ir.Value, tuple[Set[int], Set[int]]] = {}
        self.gathering: set[ir.Value] = set()  # results that data's indices gather, by inlined ones included
        self.contractions = self._contractions() if options.target != "cpu" else set[ir.Value]()
        self.products = self._of_products()
        self.scores = self._beside_products()
        self.kept: set[ir.Value] = set()  # results needed in memory: not every use reads elements in a body
        # Result -> its body as a whole, and the window that it sums over; of those asked for.
        self.windows: dict[ir.Value, tuple[Body, Window | None]] = {}
        # Result -> tensor -> reads of it a point, inlined ones included.
        self.reads: dict[ir.Value, Counter[ir.Value]] = {}
        self.works: dict[
            ir.Value, float
        ] = {}  # result -> work of an element's own, inlined ones included; those asked for

    @cached_property
    def places(self) -> dict[ir.Value, int]:
        """Result -> the op's position in the graph."""
        return {result: place for place, op in enumerate(self.ops) for result in op.results}

    def run(self) -> None:
        for body in self.bodies.values():
            reads = self.reads[body.result] = Counter()
            if self.products and reads_by_data(body):
                self.gathering.add(body.result)
            if body.loops:
                self.looping.add(body.result)
            if any(TUNED_PRODUCT in loop.op.attributes for loop in body.loops):
                self.measured.add(body.result)
            for read in body.reads:
                inner = self.bodies[read.buffer] if read.buffer in self.inlined else None
                if inner is None:
                    reads[read.buffer] += read.times
                else:
                    body.cost += read.times * inner.cost
                    body.ops += inner.ops
                    if read.buffer in self.looping:
                        self.looping.add(body.result)
                    if read.buffer in self.measured:
                        self.measured.add(body.result)
                    if read.buffer in self.gathering:
                        self.gathering.add(body.result)
                    for source, times in self.reads[read.buffer].items():
                        reads[source] += read.times * times
            if sum(1 for _ in body.result.uses) > len(self.uses.get(body.result, ())):
                self.kept.add(body.result)
            if self._worth(body):
                self.inlined[body.result] = body.op
        if not self.inlined:
            return
        for body in self.bodies.values():
            self._enter(body)
        inliner = Inliner(self.indexing, self.inlined.get)
        for body in self.bodies.values():
            stays = body.result not in self.inlined or body.result in self.kept
            if stays and any(read.buffer in self.inlined for read in body.reads):
                inliner.inline([read.op for read in body.reads])
        inliner.finish()
        for body in self.bodies.values():  # producers first: remarks go on from reader to reader
            if body.result in self.measured and body.result in self.inlined:
                ((consumer, _),) = self.uses[body.result]
                keep_remarks(consumer.op, [body.op])
        for body in reversed(self.bodies.values()):
            if body.result in self.inlined and body.result not in self.kept:
                body.op.erase()

    def _enter(self, body: Body) -> None:
        for loop in (body.root, *body.loops):
            self.indexing.enter(loop.op)

    def _worth(self, body: Body) -> bool:
        """Whether `body` is computed where it is read."""
        asked = self._asked(body)
        if asked is None:
            return False
        pays = self._pays(body, asked)
        if not is_steered():
            return pays
        consumers = {consumer.op: consumer.ops for consumer, _ in self.uses[body.result]}
        saved = 0 if body.result in self.kept else body.bytes * (1 + len(consumers))
        ops = body.ops + sum(consumers.values())
        reason = "" if pays else "to compute its elements again costs more than to read them"
        return may_fuse(Fusion(InlineProducers.name, (body.op,), tuple(consumers), saved, ops, pays, reason))

    def _asked(self, body: Body) -> dict[tuple, int] | None:
        """For each consumer and index, how many elements are read there: equal reads of a body are inlined once. None where `body` cannot be
        inlined."""
        uses = self.uses.get(body.result, ())
        if not uses or body.op.name != "bascule.compute" or STORED in body.op.attributes:
            return None
        reads = self.reads[body.result]
        if body.ops > self.options.max_ops // 2 or len(reads) > self.options.max_reads // 2:
            return None
        if body.result in self.measured:
            if not self._follows(body, uses):
                return None
        elif body.loops and (body.steps > self.options.max_window or len(uses) > 1 or self._sums_products(body)):
            return None
        scanned = any(consumer.op.name == "bascule.scan" for consumer, _ in uses)
        if scanned and self.options.target != "cpu" and body.result in self.looping:
            return None
        asked = {}
        for consumer, read in uses:
            if consumer.ops + body.ops > self.options.max_ops:
                return None
            points = consumer.points * read.times
            if read.guarded or self._repeats(body, consumer, read) > 0:
                points = min(points, body.points)
            asked[(consumer.result, *list(read.op.operands)[1:])] = points
        return asked

    def _contractions(self) -> set[ir.Value]:
        bodies = [body for body in self.bodies.values() if body.op.name == "bascule.compute" and body.loops]
        return {body.result for body in bodies if is_contraction(body.op)}

    def _of_products(self) -> set[ir.Value]:
        """Contractions, and what is computed pointwise from them."""
        found = set(self.contractions)
        for body in self.bodies.values() if found else ():
            pointwise = not body.loops and any(read.buffer in found for read in body.reads)
            if body.op.name == "bascule.compute" and pointwise:
                found.add(body.result)
        return found

    def _beside_products(self) -> set[ir.Value]:
        """Results pointwise of contractions, and what those are computed from pointwise beside them; no factor of theirs."""
        found = {body.result for body in self.bodies.values() if body.result in self.products and not body.loops}
        for body in reversed(self.bodies.values()) if found else ():
            if not body.loops and any(reader.result in found for reader, _ in self.uses.get(body.result, ())):
                found.add(body.result)
        return found

    def _sums_products(self, body: Body) -> bool:
        """Whether `body` sums what is computed from contractions: `fuse-products` has these in its kernel."""
        return any(addend.results[0] in self.products for addend in addends_read(body.op)) if self.products else False

    def _follows(self, body: Body, uses: list[tuple[Body, Access]]) -> bool:
        """Whether one pointwise compute, and nothing else, reads a measured product: each element, or part of them, once, under no condition,
        and rows by other indices than columns. That is what a tile of the product can give."""
        ((consumer, read), *others) = uses
        alone = not others and body.result not in self.kept and read.times == 1 and not read.guarded
        once = consumer.points <= (1 + BESIDE) * body.points
        if not (alone and once) or consumer.loops or consumer.op.name != "bascule.compute":
            return False
        made = Sides.of_compute(body.op)
        sides = self.sides.get(body.result) if made is None else (made.rows, made.columns)
        if sides is None:
            return True
        block = consumer.op.regions[0].blocks[0]
        places = [needed([index], block).arguments for index in read.indices]
        rows, columns = (set[int]().union(*(places[dim] for dim in side)) for side in sides)
        self.sides[consumer.result] = rows, columns
        return rows.isdisjoint(columns)

    def _repeats(self, body: Body, consumer: Body, read: Access) -> float:
        """How often each element of `body` is computed, on average, where windows of `consumer` that overlap read it, once a GPU's are unrolled;
        0 where they do not."""
        points = consumer.points * read.times
        if self.options.target == "cpu" or not consumer.loops or points <= (1 + BESIDE) * body.points:
            return 0.0
        if consumer.result not in self.windows:
            whole = decode(consumer.op, indexing=self.indexing)
            self.windows[consumer.result] = whole, window_of(whole)
        whole, window = self.windows[consumer.result]
        if not overlap(whole, body.result):
            return 0.0
        return points / body.points * (1.0 if window is None else window.left)

    def _repeated_in_windows(self, body: Body) -> bool:
        """Whether windows that overlap take longer to compute the elements of `body` again than to write and read them."""
        times = sum(self._repeats(body, consumer, read) for consumer, read in self.uses[body.result])
        if times <= 1:
            return False
        work = body.cost if body.result in self.looping else self._work(body.result)
        saved = body.bytes * (1 if body.result in self.kept else 2)
        return (times - 1) * work * body.points > WINDOWED * saved

    def _pays(self, body: Body, asked: dict[tuple, int]) -> bool:
        if INLINED in body.op.attributes:
            return True
        if self._repeated_in_windows(body):
            return False
        uses, reads = self.uses[body.result], self.reads[body.result]
        times = sum(asked.values()) / max(1, body.points)  # how often an element is computed, on average
        consumers = {consumer.result for consumer, _ in uses}
        if not body.loops and body.result in self.products and not consumers.isdisjoint(self.contractions):
            return False  # for `fuse-attention` and `fuse-products`, or with the product that it is computed from
        gathered = body.result in self.gathering and isinstance(body.result.type.element_type, ir.FloatType)
        if times > 1 + BESIDE and gathered and not consumers.isdisjoint(self.scores):
            return False  # a tile of scores would wait for an index, and then for what it names; masks by places and pages bound the walk
        if body.result in self.kept:
            return self._is_cheap(body) and self._bytes(reads, body) <= body.bytes
        if not reads:
            if self.options.target != "cpu" and body.cost <= CHEAP and not body.loops:
                return True  # a multiprocessor computes it in the time in which it would read a byte
            work = body.cost * times
            little = LITTLE.get(self.options.target, SMALL)
            return work <= CHEAP * max(1, len(consumers)) or body.points * work < little
        if len(consumers) == 1 and times <= 1 + BESIDE:
            return True
        if body.loops or (self.options.target == "cpu" and gathers(body)):
            return False
        again = (times - 1) * (body.cost * body.points + BYTE * self._bytes(reads, body))
        saved = BYTE * body.bytes * (1 + times)
        readers = [self.bodies[result] for result in consumers]
        if self.options.target != "cpu" and body.cost <= SUMMED:
            reduced = [reader for reader in readers if reader.loops]
            others = [reader for reader in readers if not reader.loops]
            if self._summed(reduced, others):
                return self._bytes(reads, body) <= (2 + BESIDE) * body.bytes
            if self._parted(reduced, others):
                return self._bytes(reads, body) <= (1 + BESIDE) * body.bytes
        once_each = len(consumers) == 1 or times <= (1 + BESIDE) * len(consumers)
        if self.options.target != "cpu" and once_each and self._left_out(body, readers):
            return True
        if once_each:
            return self._is_cheap(body) and self._bytes(reads, body) <= (1 + BESIDE) * body.bytes and again <= 4 * saved
        return body.cost == 0 and again <= saved

    def _is_cheap(self, body: Body) -> bool:
        if body.cost <= CHEAP or body.result in self.looping:
            return body.cost <= CHEAP
        return self._work(body.result) <= CHEAP

    def _work(self, source: ir.Value) -> float:
        """An element's own work of a pointwise producer."""
        if source not in self.works:
            self.works[source] = own_work(
                self.bodies[source], lambda read: self._work(read) if read in self.inlined else 0.0
            )
        return self.works[source]

    def _summed(self, reduced: list[Body], others: list[Body]) -> bool:
        """Whether one reader (`others`) reads the results of all the rest, which are sums of columns."""
        if len(others) != 1 or not reduced:
            return False
        members = [Member.of(0, consumer, self.indexing) for consumer in reduced]
        waited = {read.buffer for read in others[0].reads}
        return all(member.reduces_columns() and member.result in waited for member in members)

    def _parted(self, reduced: list[Body], others: list[Body]) -> bool:
        """Whether each of `others` depends on one of `reduced` through a call."""
        return bool(reduced and others) and all(self._through_call(reduced, other) for other in others)

    def _left_out(self, body: Body, readers: list[Body]) -> bool:
        """Whether a GPU repeats `body` instead of storing it.

        One reader depends on the others through a call, so that two kernels read it; reading its operands moves no more bytes. Not if it is
        small, as it stays in a cache; nor if the first kernel sums columns, as those are kernels of their own.
        """
        reads = self.reads[body.result]
        # Two operands as wide as itself, and small ones beside; of f32, where no rounding is saved, less than two.
        bound = 2 + BESIDE if body.width < 4 else 2 - BESIDE
        if body.bytes <= SMALL or self._bytes(reads, body) > bound * body.bytes or not self._is_cheap(body):
            return False
        waiting = []
        for reader in readers:
            others = [other for other in readers if other is not reader]
            if others and self._through_call(others, reader):
                waiting.append(reader)
            if len(waiting) > 1:
                return False
        if len(waiting) != 1 or not self._is_elementwise(reads, body):
            return False
        return not self._sums_columns([reader for reader in readers if reader is not waiting[0]])

    def _sums_columns(self, bodies: list[Body]) -> bool:
        """Whether one of `bodies`, or a transitive reader without a call in between, sums columns."""
        todo, seen = list(bodies), set()
        while todo:
            body = todo.pop()
            if body.result not in seen:
                seen.add(body.result)
                if body.loops and Member.of(0, body, self.indexing).reduces_columns():
                    return True
                todo += [consumer for consumer, _ in self.uses.get(body.result, ())]
        return False

    def _is_elementwise(self, reads: Counter[ir.Value], body: Body) -> bool:
        """Whether `body` reads tensors of its own sizes. Small ones do not count, nor does one table whose rows are looked up."""
        sizes = [(tensor_bytes(source), byte_width(source.type.element_type)) for source in reads]
        return sum(whole > SMALL and whole != body.points * width for whole, width in sizes) <= 1

    def _through_call(self, needed: list[Body], body: Body) -> bool:
        """Whether `body` depends on one of `needed` through a call."""
        first = min(self.places[other.result] for other in needed)  # earlier ops depend on none of them
        results = {other.result for other in needed}
        todo, seen = [(body.result, False)], set()
        while todo:
            value, called = todo.pop()
            if called and value in results:
                return True
            if (value, called) in seen or self.places.get(value, -1) < first:
                continue
            seen.add((value, called))
            op = value.owner
            read = (read.buffer for read in self.bodies[value].reads) if value in self.bodies else ()
            called = called or op.name == "func.call"
            todo += ((source, called) for source in (*op.operands, *read))
        return False

    def _bytes(self, reads: Counter[ir.Value], body: Body) -> int:
        """Bytes read from memory to compute every element once. Tensors that stay in a cache do not count."""
        total = 0
        for source, times in reads.items():
            whole = tensor_bytes(source)
            if whole > SMALL or whole >= body.bytes:
                total += min(whole, body.points * times * byte_width(source.type.element_type))
        return total
