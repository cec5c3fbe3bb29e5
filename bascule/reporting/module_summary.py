"""The summary of a compiled module, read from its IR."""

from collections import Counter
from typing import Any

from ..dialect.collectives.costs import CallCosts
from ..dialect.collectives.timeline import calls_of, plain
from ..dialect.ir.attribute_names import HOST_COPIES, MEMORY, OPERATORS, OVERLAP
from ..dialect.ir.functions import EXTERN, REASON, functions, graph_functions, is_extern, kernel_op
from ..dialect.ir.locations import operators_of
from ..dialect.mlir import ir
from ..dialect.remarks.attribute import remarks
from .graph_summary import AtenCall, HostCopies, Kernel, Memory, Overlap, Summary

ASSERTIONS = (
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "bascule.check_index.default",
    "bascule.check_indexed_size.default",
)
MACHINE = "h200"  # as the pass `overlap-collectives` has it
TUNED = "bascule.tuned"  # on a kernel function: what `max_autotune` measured


def summary_of(module: ir.Module) -> Summary:
    """Of a module of the program stage."""
    calls = aten_calls(module)
    computing = tuple(call for call in calls if call.operator not in ASSERTIONS)
    asserting = sum(call.calls for call in calls if call.operator in ASSERTIONS)
    told = tuple(kernels(module)), computing, memory(module), tuple(remarks(module)), runs(module), asserting
    return Summary(*told, overlap(module), copies(module), predicted_calls(module))


def predicted_calls(module: ir.Module) -> tuple[tuple[Any, ...], ...]:
    """The calls of a module, with what each takes on a GPU."""
    with module.context:
        table, costs = ir.SymbolTable(module.operation), CallCosts(MACHINE)
        return tuple(plain(call) for graph in graph_functions(module) for call in calls_of(graph, table, costs))


def overlap(module: ir.Module) -> Overlap | None:
    """Prediction for the collectives of a module; None without collectives."""
    for graph in graph_functions(module):
        if OVERLAP in graph.attributes:
            return Overlap(**{named.name: named.attr.value for named in graph.attributes[OVERLAP]})
    return None


def copies(module: ir.Module) -> HostCopies | None:
    """The copies of a module to the host or back; None where it copies nothing."""
    for graph in graph_functions(module):
        if HOST_COPIES in graph.attributes:
            return HostCopies(**{named.name: named.attr.value for named in graph.attributes[HOST_COPIES]})
    return None


def memory(module: ir.Module) -> Memory | None:
    """The bytes of the memory plan of a module of the program stage; None without a plan."""
    for graph in graph_functions(module):
        if MEMORY in graph.attributes:
            report = graph.attributes[MEMORY]
            return Memory(*(_number(report[name]) for name in ("asked", "arena", "live")))
    return None


def _number(attribute: ir.Attribute) -> str:
    return str(attribute.value.results[0] if isinstance(attribute, ir.AffineMapAttr) else attribute.value)


def aten_calls(module: ir.Module) -> list[AtenCall]:
    """The ATen operators that a module calls, with the reasons why they are not generated."""
    calls = _calls(module)
    found: Counter = Counter()
    for function in functions(module):
        if is_extern(function):
            reason = function.attributes[REASON].value if REASON in function.attributes else "not said"
            found[function.attributes[EXTERN].value, reason] += calls[function.attributes["sym_name"].value]
    return [AtenCall(operator, number, reason) for (operator, reason), number in found.items() if number]


def kernels(module: ir.Module) -> list[Kernel]:
    """The kernels of a module of the kernel or program stage."""
    calls = _calls(module)
    found = []
    for function in functions(module):
        kernel = kernel_op(function)
        if kernel is not None:
            name = function.attributes["sym_name"].value
            tuned = function.attributes[TUNED].value if TUNED in function.attributes else None
            found.append(Kernel(name, calls[name], domain_of(kernel), operators_in(function, kernel), tuned))
    return found


def runs(module: ir.Module) -> int:
    """How many runs of kernels there are, with no call of ATen and no copy in between: what a plan launches at once."""
    names = {f.attributes["sym_name"].value for f in functions(module) if kernel_op(f) is not None}
    found = 0
    for graph in graph_functions(module):
        inside = False
        for view in graph.regions[0].blocks[0].operations:
            op = view.operation
            if op.name in ("func.call", "memref.copy"):
                launch = op.name == "func.call" and op.attributes["callee"].value in names
                found += launch and not inside
                inside = launch
    return found


def domain_of(kernel: ir.Operation) -> str:
    """The parallel ranges; of independent loops in one launch, those of each."""
    sizes = kernel.attributes["ranges"].value.results
    if len(sizes):
        return " x ".join(map(str, sizes))
    loops = [op.operation for op in kernel.regions[0].blocks[0].operations if op.operation.name == "bascule.foreach"]
    sizes = Counter(domain_of(loop) for loop in loops)
    return " + ".join(f"{count} of {size}" if count > 1 else size for size, count in sizes.items()) or "1"


def operators_in(function: ir.Operation, kernel: ir.Operation) -> tuple[str, ...]:
    """The ATen operators that a kernel function computes, in order."""
    if OPERATORS in function.attributes:
        return tuple(name.value for name in function.attributes[OPERATORS])
    found: dict[str, None] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.update(dict.fromkeys(operators_of(op.location)))
        return ir.WalkResult.ADVANCE

    kernel.walk(visit)
    return tuple(found)


def _calls(module: ir.Module) -> Counter:
    """How often each function is called from the graph functions."""
    calls: Counter = Counter()
    for graph in graph_functions(module):
        for op in graph.regions[0].blocks[0].operations:
            if op.operation.name == "func.call":
                calls[op.operation.attributes["callee"].value] += 1
    return calls
