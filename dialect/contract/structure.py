"""Structure of functions: graphs and kernel functions have one block, and a kernel function has what a launch runs, and nothing else."""

from ..errors import UserError
from ..ir.functions import EXTERN, GRAPH, kernel_op
from ..ir.locations import source_of
from ..ir.regions import end_of
from ..mlir import ir

_GRAPH_HINT = "a graph function has a body, and stands for no operator"
DESTINATION = "bufferization.alloc_tensor"
# A lowering takes the kernel, and nothing else of its function.
BESIDE = frozenset((DESTINATION, "affine.apply", "arith.constant", "bascule.kernel", "func.return"))
HINT = "a kernel function has destinations, one bascule.kernel, and a return of the destinations"


def check_declaration(function: ir.Operation) -> None:
    """Refuses a graph without a body."""
    if GRAPH in function.attributes and (EXTERN in function.attributes or not len(function.regions[0].blocks)):
        told = f"{_named(function)} is a declaration with '{GRAPH}'"
        raise UserError(told, location=source_of(function.location), hint=_GRAPH_HINT)


def check_structure(function: ir.Operation) -> None:
    """Refuses a second block in a graph or a kernel function, what stands beside a kernel, and results that are no destinations of it."""
    blocks, kernel = function.regions[0].blocks, kernel_op(function)
    if GRAPH not in function.attributes and kernel is None and not _has_ops(blocks):
        return
    if len(blocks) > 1:
        raise UserError(
            f"{_named(function)} has {len(blocks)} blocks: a graph or a kernel function has one",
            location=source_of(end_of(blocks[0]).location),
            hint="conditions and loops are scf.if, scf.while and operations of the dialect",
        )
    if kernel is None:
        return
    for view in blocks[0].operations:
        op = view.operation
        if op.name not in BESIDE or (op.name == "bascule.kernel" and op != kernel):
            told = f"'{op.name}' stands beside the kernel of {_named(function)}, where no launch runs it"
            raise UserError(told, location=source_of(op.location) or source_of(function.location), hint=HINT)
        if op.name == DESTINATION:
            _check_destination(op, function)
    _check_results(end_of(blocks[0]), function)


def _has_ops(blocks: ir.BlockList) -> bool:
    """Whether the dialect's ops stand in one of several blocks."""
    ops = (view.operation for block in blocks for view in block.operations) if len(blocks) > 1 else ()
    return any(op.name.startswith("bascule.") for op in ops)


def _check_destination(op: ir.Operation, function: ir.Operation) -> None:
    """Refuses a destination that starts from anything but what the function is given."""
    sizes, copied, _ = op.attributes["operandSegmentSizes"]
    if copied and not isinstance(op.operands[sizes].owner, ir.Block):
        told = f"'{op.name}' starts from what is no argument of the kernel function {_named(function)}"
        raise UserError(told, location=source_of(op.location) or source_of(function.location), hint=HINT)


def _check_results(end: ir.Operation, function: ir.Operation) -> None:
    """Refuses a result that is no destination, and a destination that is returned twice."""
    seen: list[ir.Value] = []
    for number, value in enumerate(end.operands):
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name != DESTINATION or value in seen:
            told = f"result {number} of the kernel function {_named(function)} is no destination of its own"
            raise UserError(told, location=source_of(end.location), hint=HINT)
        seen.append(value)


def _named(function: ir.Operation) -> str:
    return f"@{function.attributes['sym_name'].value}"
