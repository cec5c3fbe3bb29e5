"""The pass `simplify-indexing`: index arithmetic in regions, composed and in simplest terms."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...ir.builders import symbols_of
from ...ir.functions import functions
from ...ir.regions import ops_in
from ...mlir import ir
from ..base import EITHER, Pass


@dataclass(frozen=True)
class SimplifyIndexing(Pass):
    """Takes any stage; leaves every `affine.apply` of a region over block indices and data-dependent indices only, in simplest terms.

    Chains of applies become one map, simplified with 0 <= index < range (`dialect/analysis/affine/affine_forms.py` lists the rules), so that
    what a reshape divides and multiplies again disappears. Unused applies are erased.
    """

    name: ClassVar[str] = "simplify-indexing"
    takes: ClassVar[str] = EITHER

    def run(self, module: ir.Module) -> None:
        with module.context:
            simplifier = Simplifier()
            for function in functions(module):
                if len(function.regions[0].blocks):
                    simplify_indexing(function, simplifier)


def simplify_indexing(function: ir.Operation, simplifier: Simplifier) -> None:
    """Simplifies the index arithmetic of one function."""
    simplify_within(function, Indexing(symbols_of(function), simplifier))


def simplify_within(root: ir.Operation, indexing: Indexing) -> None:
    """Simplifies the index arithmetic in the regions of `root`. `indexing` knows values around it at most."""
    ops = ops_in(root)
    applies = [op for op in ops if op.name == "affine.apply"]
    for op in ops:
        if "ranges" in op.attributes:
            indexing.enter(op)
    for apply in applies:
        if not indexing.is_simplest(apply):
            result = apply.results[0]
            with ir.InsertionPoint(apply), apply.location:
                result.replace_all_uses_with(indexing.build(indexing.resolve(result)))
    for apply in reversed(applies):  # only now: the indexing knows values by identity
        if not any(True for _ in apply.results[0].uses):
            apply.erase()
