"""The pass `fuse-products`: products whose factor is computed from other products become one compute each."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ...fusion.attention_parts import (
    addends_read,
    build_product,
    is_contraction,
    is_multiplied,
    sum_of,
    unrounded,
    weighings,
    weights_read,
)
from ...fusion.row_statistics import put_together
from ...ir.regions import clone, ops_in
from ...ir.shapes import constants, shape_of
from ...mlir import ir
from ...remarks.record import MISSED, PASSED
from ...scheduling.gpu.attention import walk_together
from .product_chains import ChainsPass, ProductChains, around


@dataclass(frozen=True)
class _Copy:
    """`reader` copies a product, in the order of other dims; `made` is both."""

    reader: ir.Operation
    made: ir.Operation


class _Graph(ProductChains):
    """One graph function. `chains`: products to fuse -> what is between them and the products that they are made of, those included."""

    chains: dict[ir.Operation, list[ir.Operation]]

    def run(self) -> None:
        self.chains = {op: chain for op in self.ops if op in self.near and (chain := self._between(op))}
        made = dict[ir.Operation, ir.Operation]()
        while self._settle() and not self.chains.keys() <= made.keys():
            built = {op: self._fused(op) for op in self.chains if op not in made}
            made |= {op: product for op, product in built.items() if product is not None}
            self.chains = {op: chain for op, chain in self.chains.items() if op in made}
        fused = {op: made.pop(op) for op in self.chains}
        for other in made.values():
            other.erase()
        readers = {op: self._laid_out(op, product) for op, product in fused.items()}
        for op, copy in readers.items():
            if copy is not None:
                fused[op].erase()
                fused[op] = copy.made
        pairs = self._pairs(fused)
        inner = {other for chain in self.chains.values() for other in chain}
        erased = [op for op in self.ops if op in inner or op in fused]
        for op, product in fused.items():
            self.told(product, PASSED, "products fused", "what is between them is not in memory")
            copy = readers[op]
            if copy is None:
                op.results[0].replace_all_uses_with(product.results[0])
            else:
                copy.reader.results[0].replace_all_uses_with(product.results[0])
                copy.reader.erase()
        for op in reversed(erased):
            op.erase()
        for one, other, dims in pairs:
            if self._moves_to(one, other):
                put_together([one, other], dims)
                self.told(other, PASSED, "products in one kernel", "what both are made of is computed once")

    def _pairs(
        self, fused: dict[ir.Operation, ir.Operation]
    ) -> list[tuple[ir.Operation, ir.Operation, tuple[int, ...]]]:
        """Of the products `fused`, those that are made of the same product and can walk together, two by two, and the dims of the second for
        those of the first."""
        found, left = [], [op for op in fused if op in self.contractions]
        while left:
            one, *left = left
            for other in left:
                shared = self.contractions.intersection(self.chains[one], self.chains[other])
                dims = walk_together(self.domain(fused[one]), self.domain(fused[other])) if shared else None
                if dims is not None:
                    found.append((fused[one], fused[other], dims))
                    left.remove(other)
                    break
        return found

    def _laid_out(self, op: ir.Operation, product: ir.Operation) -> "_Copy | None":
        """`product`, which stands for `op`, as what alone reads that lays it out, where there is a schedule for it: it is written once."""
        uses = list(op.results[0].uses)
        reader = around(uses[0].owner, self.block) if len(uses) == 1 and op in self.contractions else None
        if reader is None or reader.name != "bascule.compute" or not _copies(reader, op):
            return None
        with ir.InsertionPoint(op), ir.Location.fused([product.location, reader.location]):
            made = clone(reader, {op.results[0]: product.results[0]})
        self.inline(made, [product])
        if self.is_scheduled(made):
            return _Copy(reader, made)
        made.erase()
        return None

    def _moves_to(self, one: ir.Operation, other: ir.Operation) -> bool:
        """Moves `one` before `other`, and what is computed from it in between behind that; whether that may be."""
        later, todo = set[ir.Operation](), [one]
        while todo:
            users = {around(use.owner, self.block) for use in todo.pop().results[0].uses}
            early = {user for user in users if user == other or user.is_before_in_block(other)} - later
            if any(user == other or user.name not in PURE for user in early):
                return False
            later |= early
            todo += early
        one.move_before(other)
        for user in reversed([view.operation for view in self.block.operations if view.operation in later]):
            user.move_after(other)
        return True

    def _between(self, op: ir.Operation) -> list[ir.Operation]:
        """The chain of a product's one factor, or of what a sum adds up; nothing if neither factor has one, or both."""
        if op.name != "bascule.compute":
            return []
        product = op in self.contractions
        read = weights_read(op) if product else addends_read(op) or self._summed_in(op)
        chains = [chain for other in read if (chain := self.chain(other))]
        if not product and chains and len(chains) == len(read):
            chains = [list(dict.fromkeys(other for chain in chains for other in chain))]
        return chains[0] if len(chains) == 1 and all(map(_is_fusible, chains[0])) else []

    def _summed_in(self, op: ir.Operation) -> list[ir.Operation]:
        """The products, and computes made of them, that the one sum in `op` is computed from."""
        reduce = sum_of(op)
        reads = [] if reduce is None else [inner for inner in ops_in(reduce) if inner.name == "tensor.extract"]
        owners = dict.fromkeys(read.operands[0].owner for read in reads)
        return [owner.operation for owner in owners if not isinstance(owner, ir.Block) and owner.operation in self.near]

    def _settle(self) -> bool:
        """Drops products that others are made of, and those of which something is needed in memory; whether some are left."""
        inner = {other for chain in self.chains.values() for other in chain}
        self.chains = {op: chain for op, chain in self.chains.items() if op not in inner}
        while dropped := [op for op in self.chains if self._is_needed(op)]:
            for op in dropped:
                del self.chains[op]  # before its attributes change: they are part of what it is found by
                self.told(op, MISSED, "products not fused", "what is between them is needed in memory")
        return bool(self.chains)

    def _is_needed(self, op: ir.Operation) -> bool:
        """Whether something of a product's chain is read by what is neither fused with it nor in a chain."""
        inner = {other for chain in self.chains.values() for other in chain}
        for other in self.chains[op]:
            readers = {reader for reader, chain in self.chains.items() if other in chain}
            if self.used_outside([other], readers | inner):
                return True
        return False

    def _fused(self, op: ir.Operation) -> ir.Operation | None:
        """`op` with its chain in it, behind it; None where there is no schedule for that."""
        chain = self.chains[op]
        if op not in self.contractions:
            return self._summed(op, chain)
        with ir.InsertionPoint(op):
            copy = clone(op, {})
        try:
            self.inline(copy, [other for other in chain if not is_contraction(other)])
            reduce = sum_of(copy)
            assert reduce is not None
            made = self._built(op, copy, reduce, chain)
        finally:
            copy.erase()
        return made

    def _summed(self, op: ir.Operation, chain: list[ir.Operation]) -> ir.Operation | None:
        """`op`, a sum of what is computed from products, with its chain in it; None where there is no schedule for that."""
        with ir.InsertionPoint(op), ir.Location.fused([op.location, *(other.location for other in chain)]):
            made = clone(op, {})
        self.inline(made, chain)
        if self.is_scheduled(made):
            put_together([made])
            return made
        made.erase()
        self.told(op, MISSED, "products not fused", "no schedule for the sizes or types of what is summed")
        return None

    def _built(
        self, op: ir.Operation, copy: ir.Operation, reduce: ir.Operation, chain: list[ir.Operation]
    ) -> ir.Operation | None:
        results = {other.results[0] for other in chain}
        location = ir.Location.fused([op.location, *(other.location for other in chain)])
        for weight, value in weighings(reduce):
            if not _reads(unrounded(weight), results) or _reads(value, results) or not is_multiplied(value, op):
                continue
            with ir.InsertionPoint(op), location:
                made = build_product(copy, weight, value).owner.operation
            self.inline(made, chain)
            if self.is_scheduled(made):
                return made
            made.erase()
        self.told(op, MISSED, "products not fused", "no schedule for their sizes or types")
        return None


COPY = ("affine.apply", "arith.constant", "tensor.extract", "bascule.yield")
PURE = ("bascule.view", "bascule.compute")


@dataclass(frozen=True)
class FuseProducts(ChainsPass):
    """Takes the tensor stage after `fuse-attention`. On `target` cuda a product of values of 16 bits or f32 by a
    matrix that is computed pointwise from other products becomes one compute: a row of that matrix, and the sum of values that it weighs. The
    gradients of an attention by hand are such products, of weights and of scores' gradients, which are in no memory then; each product
    computes those that it needs again. Two that walk alike, the gradients of keys and of values, share a kernel, which computes the scores once
    for both. So does a sum of such a matrix over its batch, the gradient of a bias that is added to all scores. Where all
    that reads a product is a copy with its dims in another order, that is what is computed.

    Only where nothing else reads what is between, and there is a schedule for the sizes: heads are static.
    """

    name: ClassVar[str] = "fuse-products"
    chains: ClassVar[type[ProductChains]] = _Graph


def _is_fusible(op: ir.Operation) -> bool:
    """Whether `op` is a contraction, or pointwise."""
    return is_contraction(op) or not any(inner.name == "bascule.reduce" for inner in ops_in(op))


def _copies(reader: ir.Operation, op: ir.Operation) -> bool:
    """Whether `reader` has elements of `op` as they are, no more than that has."""
    own, there = (constants(shape_of(each.results[0])) for each in (reader, op))
    names = [view.operation.name for view in reader.regions[0].blocks[0].operations]
    plain = names.count("tensor.extract") == 1 and all(name in COPY for name in names)
    return plain and own is not None and there is not None and prod(own) <= prod(there)


def _reads(value: ir.Value, results: set[ir.Value]) -> bool:
    """Whether `value` is computed from an element of one of `results`."""
    todo, seen = [value], set[ir.Value]()
    while todo:
        at = todo.pop()
        if at in results:
            return True
        if at not in seen and not isinstance(at.owner, ir.Block):
            seen.add(at)
            todo += at.owner.operands
    return False
