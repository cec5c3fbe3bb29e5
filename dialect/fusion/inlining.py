"""Inlining: a `tensor.extract` of a compute becomes the compute's body at that index."""

from collections.abc import Callable, Iterable

from ..analysis.affine.indexing import Index, Indexing
from ..ir.loop_ops import YieldOp
from ..ir.regions import clone, ops_in
from ..mlir import ir


class Inliner:
    """Replaces reads of computes by their bodies, in one function.

    `producer(source)` is the compute to inline for a read of `source`, or None to leave the read. Within one consumer the same element
    of the same compute is inlined once. `kept(source, indices)` may give the value in another way, built at the current insertion point.
    Erasure waits for `finish`: values are remembered by identity.
    """

    def __init__(
        self,
        indexing: Indexing,
        producer: Callable[[ir.Value], ir.Operation | None],
        kept: Callable[[ir.Value, list[ir.Value]], ir.Value | None] = lambda source, indices: None,
    ):
        self.indexing = indexing
        self.producer = producer
        self.kept = kept
        self._dead: list[ir.Operation] = []
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._known: dict[tuple[ir.Block, ir.Value, tuple[Index, ...]], ir.Value] = {}

    def inline(self, reads: Iterable[ir.Operation]) -> list[ir.Operation]:
        """Inlines at `reads`, which are in program order, and at the reads that this brings in; returns those left."""
        kept = []
        todo = list(reads)[::-1]
        while todo:
            read = todo.pop()
            source = read.operands[0]
            producer = self.producer(source)
            if producer is None:
                kept.append(read)
                continue
            value, inner = self._element(producer, source, list(read.operands)[1:], read)
            todo.extend(reversed(inner))
            self._replace(read, value)
        return kept

    def element(self, source: ir.Value, indices: list[ir.Value], before: ir.Operation) -> ir.Value:
        """The element of the compute result `source` at `indices`: a value known at the op `before`, or built there."""
        producer = self.producer(source)
        assert producer is not None
        value, inner = self._element(producer, source, indices, before)
        self.inline(inner)
        return self._current(value)

    def _element(
        self, producer: ir.Operation, source: ir.Value, indices: list[ir.Value], before: ir.Operation
    ) -> tuple[ir.Value, list[ir.Operation]]:
        """The value of the element, and the reads in what was copied for it."""
        key = (source, tuple(map(self.indexing.resolve, indices)))
        value = self._found(before.block, key)
        if value is not None:
            return value, []
        with ir.InsertionPoint(before), before.location:
            value = self.kept(source, indices)
        inner: list[ir.Operation] = []
        if value is None:
            value, inner = self._copy(producer, indices, before)
        self._known[(before.block, *key)] = value
        return value, inner

    def _copy(
        self, producer: ir.Operation, indices: list[ir.Value], before: ir.Operation
    ) -> tuple[ir.Value, list[ir.Operation]]:
        """The body of `producer` at `indices`, copied before the op `before`: its value, and the reads in it."""
        inside, (value,), reads = self._copied(producer, indices, before)
        return inside.get(value, value), reads

    def stores(self, scatter: ir.Operation, indices: list[ir.Value], dest: ir.Value, before: ir.Operation) -> None:
        """Builds what a scatter does at the point `indices`, into `dest`, before the op `before`."""
        _, _, reads = self._copied(scatter, [*indices, dest], before)
        self.inline(reads)

    def _copied(
        self, producer: ir.Operation, arguments: list[ir.Value], before: ir.Operation
    ) -> tuple[dict[ir.Value, ir.Value], list[ir.Value], list[ir.Operation]]:
        """The region of `producer` for `arguments`, copied before the op `before`: the values there for those in it, what it yields, and the
        reads in the copy."""
        block = producer.regions[0].blocks[0]
        inside: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments))
        reads: list[ir.Operation] = []
        point = ir.InsertionPoint(before)
        for view in block.operations:
            op = view.operation
            name = op.name
            if name == YieldOp.OPERATION_NAME:
                return inside, list(op.operands), reads
            with point:
                new = clone_composed(op, inside, self.indexing)
            if new is None:
                continue
            if name == "tensor.extract":
                reads.append(new)
            elif len(new.regions):
                for inner in ops_in(new):
                    if inner.name == "tensor.extract":
                        reads.append(inner)
                    elif "ranges" in inner.attributes:
                        self.indexing.enter(inner)
        raise AssertionError("a region without a yield")

    def _found(self, block: ir.Block, key: tuple[ir.Value, tuple[Index, ...]]) -> ir.Value | None:
        """The value of an earlier inlining in `block` or in a block around it."""
        while True:
            value = self._known.get((block, *key))
            if value is not None:
                return self._current(value)
            owner = block.owner.operation
            if owner.name == "func.func":
                return None
            block = owner.block

    def _current(self, value: ir.Value) -> ir.Value:
        """The value that stands now for one that may have been a read."""
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _replace(self, read: ir.Operation, value: ir.Value) -> None:
        result = read.results[0]
        if value.type != result.type:  # unsigned: the read is cast to the signless scalar that the body yields
            for use in list(result.uses):
                cast = use.owner.operation
                cast.results[0].replace_all_uses_with(value)
                self._replaced[cast.results[0]] = value
                self._dead.append(cast)
        else:
            result.replace_all_uses_with(value)
            self._replaced[result] = value
        self._dead.append(read)

    def finish(self) -> None:
        """Erases the reads that were replaced."""
        for op in self._dead:
            op.erase()
        self._dead.clear()
        self._known.clear()
        self._replaced.clear()


def clone_composed(op: ir.Operation, mapping: dict[ir.Value, ir.Value], indexing: Indexing) -> ir.Operation | None:
    """As `clone`, but for index arithmetic: an `affine.apply` is composed with those that made its operands. Then None is returned."""
    if op.name != "affine.apply":
        return clone(op, mapping)
    arguments = [mapping.get(operand, operand) for operand in op.operands]
    (index,) = indexing.at(op.attributes["map"].value, arguments)
    with op.location:
        mapping[op.results[0]] = indexing.build(index)
    return None
