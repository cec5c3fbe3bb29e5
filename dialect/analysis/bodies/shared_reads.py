"""Indices of a domain whose points read the same: sums over all of a tensor, each of what is its own."""

from ...ir.regions import ops_in
from ...ir.shapes import constant
from ...mlir import ir
from .body_tree import READS, indices_of, sizes_of

AT_ONCE = 64  # points of such an index that a program has, at most


def shared_size(op: ir.Operation, loop: ir.Operation) -> int:
    """How many points of a compute's domain have one piece of work for what `loop` reads: of the largest static dim, up to `AT_ONCE`, that no
    place that is read there depends on; 1 if there is none."""
    if not any(inner.name in READS for inner in ops_in(loop)):
        return 1
    found = [
        size for index, s in zip(indices_of(op), sizes_of(op)) if (size := constant(s)) and not reads_vary(index, loop)
    ]
    return min(AT_ONCE, max(found, default=1))


def reads_vary(index: ir.Value, loop: ir.Operation) -> bool:
    """Whether what `loop` reads, or whether it reads, depends on `index`."""
    todo, seen = [index], {index}
    while todo:
        for use in todo.pop().uses:
            op = use.owner.operation
            if _inside(op, loop) and (op.name in READS or op.name.startswith("scf.")):
                return True
            new = [result for result in op.results if result not in seen]
            seen.update(new)
            todo += new
    return False


def _inside(op: ir.Operation, loop: ir.Operation) -> bool:
    parent = op.parent
    while parent is not None:
        if parent.operation == loop:
            return True
        parent = parent.operation.parent
    return False
