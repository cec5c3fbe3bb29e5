"""The base of passes that make a product, those that it is made of, and what is pointwise between, one compute."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.backward_slice import captured, needed
from ...analysis.bodies.body_summary import Body, decode
from ...fusion.attention_parts import is_contraction
from ...fusion.inlining import Inliner
from ...fusion.own_work import joint_work
from ...ir.functions import graph_functions
from ...ir.regions import ops_in
from ...mlir import ir
from ...remarks.attribute import place
from ...remarks.record import Remark
from ...scheduling.gpu.attention import attention
from ...scheduling.gpu.domains import Domain
from ...scheduling.gpu.machine import H200, CudaMachine
from ...scheduling.gpu.summed_products import summed_products
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk
from ..tensor.simplify_indexing import simplify_within

CHEAP = (
    16  # additions of a score, at most, that are done for each rather than read: for a mask by places, of indices alone
)


@dataclass(frozen=True)
class ChainsPass(Pass):
    """A pass over the chains of each graph function, for an NVIDIA GPU; on a CPU nothing changes."""

    takes: ClassVar[str] = VALUES
    chains: ClassVar[type["ProductChains"]]
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
                self.chains(graph, self.name, simplifier, machine).run()


class ProductChains(GraphWalk):
    """One graph function, for the pass of that name. A chain is the computes from contractions to one that depends on them."""

    def __init__(self, graph: ir.Operation, pass_name: str, simplifier: Simplifier, machine: CudaMachine):
        super().__init__(graph)
        self.pass_name, self.simplifier, self.machine = pass_name, simplifier, machine
        self.contractions = {op for op in self.ops if op.name == "bascule.compute" and is_contraction(op)}
        self.near = self._near() if self.contractions else set()
        self.of_indices = dict[ir.Operation, float]()

    def _near(self) -> set[ir.Operation]:
        """The contractions, and the computes that are made of them by computes alone."""
        near = set[ir.Operation]()
        for op in self.ops:
            if op in self.contractions or (op.name == "bascule.compute" and not near.isdisjoint(_read(op))):
                near.add(op)
        return near

    def run(self) -> None:
        raise NotImplementedError

    def told(self, op: ir.Operation, kind: str, decision: str, reason: str) -> None:
        """Adds a remark of the pass to those that `op` has."""
        self.remark(op, Remark(self.pass_name, kind, decision, reason, place(op)))

    def chain(self, last: ir.Operation) -> list[ir.Operation]:
        """The computes from contractions to `last`, which depends on them, in program order."""
        reads, todo = dict[ir.Operation, list[ir.Operation]](), [last]
        while todo:
            compute = todo.pop()
            if compute not in reads and compute in self.near:
                reads[compute] = [other for other in _read(compute) if other.block == self.block]
                todo += reads[compute]
        chain = set[ir.Operation]()
        for compute in self.ops if reads else ():
            if compute in reads and (compute in self.contractions or not chain.isdisjoint(reads[compute])):
                chain.add(compute)
        return [compute for compute in self.ops if compute in chain]

    def erase(self, ops: Sequence[ir.Operation]) -> None:
        """Erases `ops`, each after those that read it."""
        self.ops = [op for op in self.ops if op not in ops]
        self.near.difference_update(ops)
        self.contractions.difference_update(ops)
        for op in ops:
            op.erase()

    def is_of_indices(self, compute: ir.Operation) -> bool:
        """Whether an element of `compute` is a function of its indices, without a loop, that is cheap but for what one index alone decides; of
        lengths too, which are read."""
        return self._work_of_indices(compute) <= CHEAP

    def _work_of_indices(self, compute: ir.Operation) -> float:
        """In additions, of what depends on several indices, for an element of `compute`; infinite where that is no function of its indices, or
        has a loop."""
        if compute not in self.of_indices:
            inner = ops_in(compute)
            read = [op for op in inner if op.name == "tensor.extract"]
            plain = all(op == compute or not len(op.regions) for op in inner)
            known = {
                other: self._work_of_indices(other) for op in read if (other := _compute(op.operands[0])) is not None
            }
            told = all(_compute(op.operands[0]) is not None or _is_length(compute, op) for op in read)
            finite = plain and told and inf not in known.values()
            self.of_indices[compute] = (
                joint_work(Body(compute), lambda x: known.get(_compute(x), 0.0)) if finite else inf
            )
        return self.of_indices[compute]

    def used_outside(self, ops: Iterable[ir.Operation], inside: set[ir.Operation]) -> bool:
        """Whether a result of `ops` is used by anything but `inside`."""
        return any(around(use.owner, self.block) not in inside for op in ops for use in op.results[0].uses)

    def domain(self, made: ir.Operation) -> Domain:
        """That of the compute `made`."""
        body = decode(made, indexing=Indexing(self.symbols, self.simplifier))
        return Domain(body, body.root, self.machine)

    def is_scheduled(self, made: ir.Operation) -> bool:
        """Whether there is a schedule for `made`."""
        domain = self.domain(made)
        return attention(domain) is not None or summed_products(domain) is not None

    def inline(self, op: ir.Operation, chain: Sequence[ir.Operation]) -> None:
        """Inlines into `op` those of `chain`, and what is computed of indices alone, if that is cheap."""
        indexing = Indexing(self.symbols, self.simplifier)
        for loop in (loop for compute in (op, *chain) for loop in ops_in(compute) if "ranges" in loop.attributes):
            indexing.enter(loop)

        def producer(source: ir.Value) -> ir.Operation | None:
            compute = _compute(source)
            return compute if compute is not None and (compute in chain or self.is_of_indices(compute)) else None

        inliner = Inliner(indexing, producer)
        inliner.inline([inner for inner in ops_in(op) if inner.name == "tensor.extract"])
        inliner.finish()
        simplify_within(op, Indexing(self.symbols, self.simplifier))


def _read(compute: ir.Operation) -> list[ir.Operation]:
    """The computes that `compute` reads; a contraction, beside its factors."""
    values = captured(compute)
    if is_contraction(compute):
        outer = [view.operation for view in compute.regions[0].blocks[0].operations]
        values = [value for op in outer if op.name != "bascule.reduce" for value in captured(op)]
    return list(filter(None, map(_compute, values)))


def _compute(value: ir.Value) -> ir.Operation | None:
    owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
    return owner if owner is not None and owner.name == "bascule.compute" else None


def _is_length(compute: ir.Operation, read: ir.Operation) -> bool:
    """Whether what is read tells for each of a batch how much a mask hides: the places in its rows do not say where."""
    *_, place = compute.regions[0].blocks[0].arguments
    masks = compute.results[0].type.element_type == ir.IntegerType.get_signless(1)
    block = compute.regions[0].blocks[0]
    return masks and place.arg_number not in needed(list(read.operands)[1:], block).arguments


def around(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of `block` that `op` is in."""
    operation = op.operation
    while operation.block != block:
        operation = operation.parent.operation
    return operation
