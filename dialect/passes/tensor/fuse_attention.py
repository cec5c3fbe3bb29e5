"""The pass `fuse-attention`: products, the softmax between them, and what is pointwise become one compute."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.backward_slice import captured
from ...analysis.bodies.body_summary import decode
from ...fusion.attention_parts import Weighted, build, is_contraction, weights_read
from ...fusion.inlining import Inliner
from ...ir.functions import graph_functions
from ...ir.regions import clone, ops_in
from ...mlir import ir
from ...remarks.attribute import place
from ...remarks.record import MISSED, PASSED, Remark
from ...scheduling.gpu.attention import attention
from ...scheduling.gpu.domains import Domain
from ...scheduling.gpu.machine import H200, CudaMachine
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk
from .simplify_indexing import simplify_within


@dataclass(frozen=True)
class FuseAttention(Pass):
    """Takes the tensor stage after `inline-producers`. On `target` cuda attention becomes one compute, that of a sum of 16-bit values over keys
    which exp(s - max s) / sum exp(s - max s) weighs, where the scores s are computed pointwise from a contraction of queries and keys: a row of
    scores, its two reductions and the weighted sum, divided at last. `schedule-kernels` walks the keys once, and no score is in memory.

    Only where nothing else reads the scores or the weights, and there is a schedule for the sizes, which are static. Weights are rounded to 16
    bits before they are divided, not after.
    """

    name: ClassVar[str] = "fuse-attention"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    sm_count: int = H200.sm_count
    capability: int = H200.capability
    registers: int = H200.registers
    l2_bytes: int = H200.l2_bytes

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        machine = CudaMachine(self.sm_count, self.capability, self.registers, self.l2_bytes)
        with module.context:
            simplifier = Simplifier()
            for graph in graph_functions(module):
                _Graph(graph, simplifier, machine).run()


class _Graph(GraphWalk):
    """One graph function. Computes are looked at with what is pointwise inlined, in copies."""

    def __init__(self, graph: ir.Operation, simplifier: Simplifier, machine: CudaMachine):
        super().__init__(graph)
        self.simplifier, self.machine = simplifier, machine

    def run(self) -> None:
        for op in self.ops:
            if op.name == "bascule.compute" and any(inner.name == "bascule.reduce" for inner in ops_in(op)):
                self._fuse(op)

    def _fuse(self, op: ir.Operation) -> None:
        for weights in weights_read(op):
            chain = self._chain(weights)
            if any(map(is_contraction, chain)):
                self._fuse_with(op, chain)
                return

    def _chain(self, last: ir.Operation) -> list[ir.Operation]:
        """The computes from contractions to `last`, which depends on them, in program order."""
        reads, todo = dict[ir.Operation, list[ir.Operation]](), [last]
        while todo:
            compute = todo.pop()
            if compute not in reads:
                read = [] if is_contraction(compute) else list(filter(None, map(_compute, captured(compute))))
                reads[compute] = [other for other in read if other.block == self.block]
                todo += reads[compute]
        chain = set[ir.Operation]()
        for compute in self.ops:
            if compute in reads and (is_contraction(compute) or not chain.isdisjoint(reads[compute])):
                chain.add(compute)
        return [compute for compute in self.ops if compute in chain]

    def _fuse_with(self, op: ir.Operation, chain: list[ir.Operation]) -> None:
        """Makes `op` and `chain` one compute if they are an attention and nothing else needs one of the chain."""
        with ir.InsertionPoint(op):
            copy = clone(op, {})
        try:
            self._inline(copy, [other for other in chain if not is_contraction(other)])
            found = Weighted.of(copy)
            if found is None:
                return
            inside = {op, copy, *chain}
            if any(_around(use.owner, self.block) not in inside for other in chain for use in other.results[0].uses):
                self._told(op, MISSED, "no attention", "its scores or weights are needed in memory")
                return
            location = ir.Location.fused([op.location, *(other.location for other in chain)])
            with ir.InsertionPoint(op), location:
                made = build(copy, found).owner.operation
            self._inline(made, chain)
        finally:
            copy.erase()
        self._replace(op, chain, made)

    def _told(self, op: ir.Operation, kind: str, decision: str, reason: str) -> None:
        self.remark(op, Remark(FuseAttention.name, kind, decision, reason, place(op)))

    def _replace(self, op: ir.Operation, chain: list[ir.Operation], made: ir.Operation) -> None:
        """Puts `made` in the place of `op` and `chain`, where there is a schedule for it."""
        body = decode(made, indexing=Indexing(self.symbols, self.simplifier))
        if attention(Domain(body, body.root, self.machine)) is None:
            made.erase()
            self._told(op, MISSED, "no attention", "no schedule for its sizes or types")
            return
        self._told(made, PASSED, "attention", "no score is in memory")
        op.results[0].replace_all_uses_with(made.results[0])
        for other in (op, *reversed(chain)):
            other.erase()

    def _inline(self, op: ir.Operation, chain: Sequence[ir.Operation]) -> None:
        """Inlines into `op` those of `chain`."""
        indexing = Indexing(self.symbols, self.simplifier)
        for loop in (loop for compute in (op, *chain) for loop in ops_in(compute) if "ranges" in loop.attributes):
            indexing.enter(loop)

        def producer(source: ir.Value) -> ir.Operation | None:
            compute = _compute(source)
            return compute if compute is not None and compute in chain else None

        inliner = Inliner(indexing, producer)
        inliner.inline([inner for inner in ops_in(op) if inner.name == "tensor.extract"])
        inliner.finish()
        simplify_within(op, Indexing(self.symbols, self.simplifier))


def _compute(value: ir.Value) -> ir.Operation | None:
    owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
    return owner if owner is not None and owner.name == "bascule.compute" else None


def _around(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of `block` that `op` is in."""
    operation = op.operation
    while operation.block != block:
        operation = operation.parent.operation
    return operation
