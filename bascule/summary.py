"""What a compiled module consists of: read from its IR, for `explain` and the counters."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from .dialect.fusion.kernel_functions import OPERATORS
from .dialect.ir.functions import EXTERN, REASON, functions, graph_functions, is_extern, kernel_op, remarks
from .dialect.ir.locations import operators_of
from .dialect.mlir import ir
from .dialect.passes.plan_memory import MEMORY


@dataclass(frozen=True)
class Kernel:
    """A kernel function."""

    name: str
    calls: int  # launches of it a run
    domain: str  # "1024 x 8192", the parallel ranges
    operators: tuple[str, ...]  # the ATen operators it computes, in order


@dataclass(frozen=True)
class AtenCall:
    """An operator that went to ATen."""

    operator: str  # "aten.mm.default"
    calls: int
    reason: str


@dataclass(frozen=True)
class Memory:
    """The bytes of intermediates, as `plan-memory` left them; expressions of the symbols where sizes are dynamic."""

    asked: str  # of all buffers, had each its own
    arena: str  # of the arena that they share
    live: str  # of the largest set of static buffers that is needed at one time: the least an arena can have

    def __str__(self) -> str:
        return f"an arena of {self.arena} bytes for {self.asked} bytes of intermediates, {self.live} live at one time"


def memory(module: ir.Module) -> Memory | None:
    """What the plan of a module of the program stage says; None without a plan."""
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
            found.append(Kernel(name, calls[name], domain_of(kernel), _operators(function, kernel)))
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


def _operators(function: ir.Operation, kernel: ir.Operation) -> tuple[str, ...]:
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


@dataclass(frozen=True)
class Summary:
    """What `explain` and the counters tell of a compiled graph."""

    kernels: tuple[Kernel, ...]
    aten: tuple[AtenCall, ...]
    memory: Memory | None
    remarks: tuple[str, ...]
    runs: int

    @staticmethod
    def of(module: ir.Module) -> "Summary":
        """Of a module of the program stage."""
        return Summary(
            tuple(kernels(module)), tuple(aten_calls(module)), memory(module), tuple(remarks(module)), runs(module)
        )

    @property
    def launches(self) -> int:
        """Launches of kernels a run."""
        return sum(kernel.calls for kernel in self.kernels)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(told: dict[str, Any]) -> "Summary":
        return Summary(
            tuple(Kernel(**{**kernel, "operators": tuple(kernel["operators"])}) for kernel in told["kernels"]),
            tuple(AtenCall(**call) for call in told["aten"]),
            told["memory"] and Memory(**told["memory"]),
            tuple(told["remarks"]),
            told["runs"],
        )
