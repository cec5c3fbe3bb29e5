"""Which buffers a program gives its kernels at addresses that are not multiples of 16 bytes."""

from bascule.dialect.analysis.memory.buffers import ALIASES, Sizes
from bascule.dialect.ir.attribute_names import UNALIGNED
from bascule.dialect.ir.functions import functions, graph_functions, kernel_op, mark_arguments
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from .buffer_places import displacement

# Bytes: of inputs, of allocations, of places in the arena. `runtime/memory/alignment.py` has the number too, and sees to inputs: neither layer
# may import the other.
ALIGNMENT = 16


def mark_unaligned(module: ir.Module) -> None:
    """Puts `bascule.unaligned` on the arguments of kernel functions that some call of a program-stage module gives a view at an address of
    its own: an element of a tensor of seeds, a slice of an input that is written."""
    with module.context:
        table = ir.SymbolTable(module.operation)
        kernels = {f.attributes["sym_name"].value: f for f in functions(module) if kernel_op(f) is not None}
        found: dict[str, set[int]] = {}
        for graph in graph_functions(module):
            sizes = Sizes(graph, table)
            for view in graph.regions[0].blocks[0].operations:
                op = view.operation
                if op.name == "func.call" and op.attributes["callee"].value in kernels:
                    for number, operand in enumerate(op.operands):
                        if isinstance(operand.type, ir.MemRefType) and not _aligned(operand, sizes):
                            found.setdefault(op.attributes["callee"].value, set()).add(number)
        for name, numbers in found.items():
            mark_arguments(kernels[name], numbers, UNALIGNED)


def _aligned(value: ir.Value, sizes: Sizes) -> bool:
    """Whether the first element lies at a multiple of 16 bytes, if that of the tensor it is a part of does."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in ALIASES:
        op = value.owner.operation
        if not divides(ALIGNMENT, displacement(op, sizes)):
            return False
        value = op.operands[0]
    return True


def divides(number: int, e: ir.AffineExpr) -> bool:
    """Whether `e` is a multiple of `number` whatever the symbols are, as far as its form shows."""
    e = expr(e)
    if isinstance(e, ir.AffineConstantExpr):
        return e.value % number == 0
    if isinstance(e, ir.AffineAddExpr):
        return divides(number, e.lhs) and divides(number, e.rhs)
    if isinstance(e, ir.AffineMulExpr):
        return divides(number, e.lhs) or divides(number, e.rhs)
    return False
