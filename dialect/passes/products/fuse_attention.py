"""The pass `fuse-attention`: products, the softmax between them, and what is pointwise become one compute."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...fusion.attention_parts import Weighted, build, is_contraction, is_multiplied, weights_read
from ...fusion.row_statistics import Statistic, build_statistic, put_together
from ...ir.regions import clone, ops_in
from ...mlir import ir
from ...remarks.record import MISSED, PASSED
from ...scheduling.gpu.attention import found_in, key_parts
from ..tensor.simplify_indexing import simplify_within
from .key_parts import in_parts
from .product_chains import ChainsPass, ProductChains, around


class _Graph(ProductChains):
    """One graph function. Computes are looked at with what is pointwise inlined, in copies."""

    def run(self) -> None:
        for op in list(self.ops):  # what is erased meanwhile comes before
            if op in self.near and any(inner.name == "bascule.reduce" for inner in ops_in(op)):
                self._fuse(op)

    def _fuse(self, op: ir.Operation) -> None:
        for weights in weights_read(op):
            chain = self.chain(weights)
            if not self.contractions.isdisjoint(chain):
                self._fuse_with(op, chain)
                return

    def _fuse_with(self, op: ir.Operation, chain: list[ir.Operation]) -> None:
        """Makes `op` and `chain` one compute if they are an attention and nothing else needs one of the chain."""
        with ir.InsertionPoint(op):
            copy = clone(op, {})
        try:
            self.inline(copy, [other for other in chain if not is_contraction(other)])
            found = Weighted.of(copy)
            if found is None:
                return
            if not is_multiplied(found.value, op):
                self.told(op, MISSED, "no attention", "its values have fewer bits than the weights")
                return
            inside = {op, copy, *chain}
            needed = [other for other in chain if self.used_outside([other], inside)]
            totals = {other: self._is_total(other, chain, copy, found) for other in needed}
            if None in totals.values() or not self._is_used_after(op, needed, inside):
                self.told(op, MISSED, "no attention", "its scores or weights are needed in memory")
                return
            location = ir.Location.fused([op.location, *(other.location for other in chain)])
            with ir.InsertionPoint(op), location:
                made = build(copy, found).owner.operation
            self.inline(made, chain)
        finally:
            copy.erase()
        self._replace(op, chain, made, {other: bool(total) for other, total in totals.items()})

    def _is_total(
        self, op: ir.Operation, chain: list[ir.Operation], attention: ir.Operation, found: Weighted
    ) -> bool | None:
        """Of `op` of a chain: whether it is the sum of exponentials of the rows of an attention, or their maximum; None if it is neither."""
        with ir.InsertionPoint(op):
            copy = clone(op, {})
        try:
            self.inline(copy, [other for other in chain if other != op and not is_contraction(other)])
            statistic = Statistic.of(copy)
            return statistic.total if statistic is not None and statistic.is_of(attention, found) else None
        finally:
            copy.erase()

    def _is_used_after(self, op: ir.Operation, ops: list[ir.Operation], inside: set[ir.Operation]) -> bool:
        """Whether all that is not `inside` and uses `ops` comes after `op`."""
        users = [around(use.owner, self.block) for other in ops for use in other.results[0].uses]
        return all(user in inside or op.is_before_in_block(user) for user in users)

    def _replace(
        self, op: ir.Operation, chain: list[ir.Operation], made: ir.Operation, totals: dict[ir.Operation, bool]
    ) -> None:
        """Puts `made` in the place of `op` and `chain`, where there is a schedule for it, and beside it the maxima and `totals` of its rows
        that are needed."""
        whole = self._in_parts(op, made)
        if whole is None and not self.is_scheduled(made):
            made.erase()
            self.told(op, MISSED, "no attention", "no schedule for its sizes or types")
            return
        if whole is None:
            self.told(made, PASSED, "attention", "no score is in memory")
        else:
            made.erase()
            made = whole
        op.results[0].replace_all_uses_with(made.results[0])
        together = [made]
        for other, total in totals.items():
            with ir.InsertionPoint(op), other.location:
                together.append(build_statistic(made, other, total).owner.operation)
            other.results[0].replace_all_uses_with(together[-1].results[0])
        if totals:
            put_together(together)
        self.erase([op, *reversed(chain)])

    def _in_parts(self, op: ir.Operation, made: ir.Operation) -> ir.Operation | None:
        """Parts of the keys of `made`, before `op`, and the last compute, which stands for it; None where they go into none."""
        domain = self.domain(made)
        parts = key_parts(domain)
        if parts is None:
            return None
        (found,) = found_in(domain)
        with ir.InsertionPoint(op), made.location:
            computes = in_parts(made, found, parts, self.symbols)
        for compute in computes:
            simplify_within(compute, Indexing(self.symbols, self.simplifier))
        if not self.is_scheduled(computes[0]):
            for compute in reversed(computes):
                compute.erase()
            return None
        self.told(computes[0], PASSED, f"attention in {parts.name}", parts.why)
        return computes[-1]


@dataclass(frozen=True)
class FuseAttention(ChainsPass):
    """Takes the tensor stage after `inline-producers`. On `target` cuda attention becomes one compute, that of a sum over keys of values of
    16 bits or f32 which exp(s - max s) / sum exp(s - max s) weighs, where the scores s are computed pointwise from a contraction of queries and
    keys: a row of scores, its two reductions and the weighted sum, divided at last. `schedule-kernels` walks the keys once, and no score is in
    memory.

    Only where nothing else reads the scores or the weights, and there is a schedule for the sizes: heads are static, of 512 elements at most.
    Weights of 16-bit values are rounded before they are divided, not after.

    Where that has few programs for many keys, or the number of rows is known and that of keys is not, the keys go into parts: computes of the
    result, the maximum and the sum of exponentials of each part, which share a kernel, and one that puts them together. The remark has the time
    that is predicted.
    """

    name: ClassVar[str] = "fuse-attention"
    chains: ClassVar[type[ProductChains]] = _Graph
