"""A product of a graph with what is computed from it, as a module of its own: what is measured instead of the graph."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.functions import GRAPH, REMARKS, STORAGES
from ...ir.regions import clone, op_in, ops_in
from ...mlir import func, ir
from ..bodies.backward_slice import captured
from .buffers import ALIASES

MOST = 24  # computes and views that are measured with a product
FOLLOWS = ("bascule.compute", *ALIASES)


class Reads:
    """The ops of a graph's block, in order, and for each the numbers of those whose results it uses."""

    def __init__(self, ops: Sequence[ir.Operation]):
        self.ops = ops
        made = {result: number for number, op in enumerate(ops) for result in op.results}
        self.of = [{made[value] for value in captured(op) if value in made} for op in ops]


@dataclass(frozen=True)
class LoneProduct:
    """The call number `place` of a graph's block, of the ATen function `callee`; `followers` are the numbers of the computes and views that are
    computed from it, and from nothing else that depends on it; `widenings` are computes that widen its factors."""

    callee: ir.Operation
    ops: Sequence[ir.Operation]
    place: int
    followers: tuple[int, ...]
    widenings: tuple[ir.Operation, ...]

    @staticmethod
    def of(place: int, callee: ir.Operation, reads: Reads, widenings: Sequence[ir.Operation] = ()) -> "LoneProduct":
        inside, depends = {place}, {place}
        for number in range(place + 1, len(reads.ops)):
            used = reads.of[number] & depends
            if used:
                depends.add(number)
                if len(inside) <= MOST and used <= inside and _is_plain(reads.ops[number]):
                    inside.add(number)
        return LoneProduct(callee, reads.ops, place, tuple(sorted(inside - {place})), tuple(widenings))

    @property
    def call(self) -> ir.Operation:
        return self.ops[self.place]

    @property
    def graph(self) -> str:
        """The name of the graph."""
        return self.call.parent.operation.attributes["sym_name"].value

    def module(self) -> ir.Module:
        """The product and its followers as a graph, of the tensors that they read; it returns what others read."""
        inner = [self.ops[number] for number in (self.place, *self.followers)]
        made = {result for op in inner for result in op.results}
        sources = self._sources(inner, made)
        given = list(dict.fromkeys(value for op in (*sources, *inner) for value in _given(op)))
        arguments = [value for value in given if value not in made and value.owner not in sources]
        results = self._results(inner)
        with ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                self.callee.clone(ir.InsertionPoint(module.body))
                type_ = ir.FunctionType.get([value.type for value in arguments], [value.type for value in results])
                graph = func.FuncOp("main", type_)
                block = graph.add_entry_block()
        mapping = dict(zip(arguments, block.arguments))
        with ir.InsertionPoint(block):
            for op in (*sources, *inner):
                copy = clone(op, mapping)
                if REMARKS in copy.attributes:
                    del copy.attributes[REMARKS]
            func.ReturnOp([mapping[value] for value in results], loc=ir.Location.unknown())
        tensors = len(arguments) + len(results)
        graph.operation.attributes[GRAPH] = ir.UnitAttr.get()
        graph.operation.attributes[STORAGES] = ir.DenseI64ArrayAttr.get(range(tensors))  # no two share memory
        return module

    def _sources(self, inner: Sequence[ir.Operation], made: set[ir.Value]) -> list[ir.Operation]:
        """The views through which they read what others make, in order, so that strides are as they are; and what widens factors."""
        found = set(self.widenings)
        todo = [value for op in found for value in _given(op)]
        todo += [value for op in inner for value in _given(op) if value not in made]
        while todo:
            owner = todo.pop().owner
            if not isinstance(owner, ir.Block) and owner.name in ALIASES and owner.operation not in found:
                found.add(owner.operation)
                todo += owner.operands
        return [op for op in self.ops if op in found]

    def _results(self, inner: Sequence[ir.Operation]) -> list[ir.Value]:
        """The values that others read, of views what they are of."""
        own, found = set(inner), dict[ir.Value, None]()
        for op in inner:
            for result in op.results:
                if any(op_in(op.block, use.owner.operation) not in own for use in result.uses):
                    base = result
                    while base.owner.name in ALIASES and base.owner.operation in own:
                        base = base.owner.operands[0]
                    found[base] = None
        return list(found) or list(self.call.results)


def _given(op: ir.Operation) -> list[ir.Value]:
    """The values that `op` and its regions use and do not make."""
    inner = ops_in(op)
    own = {result for each in inner[1:] for result in each.results}
    own |= {argument for each in inner for region in each.regions for block in region for argument in block.arguments}
    return [value for each in inner for value in each.operands if value not in own]


def _is_plain(op: ir.Operation) -> bool:
    """Whether `op` is a compute or a view of tensors alone, all of static sizes: no symbol of the graph is in it."""
    values = [*_given(op), *op.results]
    tensors = all(isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape for value in values)
    return op.name in FOLLOWS and tensors
