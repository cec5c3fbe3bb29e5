"""Reads that wait for one another: each at a place that the one before it decides, as in a bisection."""

from ...ir.regions import ops_in
from ...mlir import ir
from .body_tree import READS

SEARCH = 6  # reads in a chain that make a search: threads wait for most of the time


def longest_chain(op: ir.Operation) -> int:
    """Of the reads in `op`, outside of which nothing counts, the most that follow one another so. What loops carry is not looked at."""
    depths: dict[ir.Value, int] = {}
    longest = 0
    for inner in ops_in(op):
        if not inner.regions and len(inner.results):
            depth = max((depths.get(operand, 0) for operand in inner.operands), default=0) + (inner.name in READS)
            if depth:
                depths.update(dict.fromkeys(inner.results, depth))
                longest = max(longest, depth)
    return longest
