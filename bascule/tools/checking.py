"""A module held against what it was before passes ran: on seeded inputs, interpreted and compiled."""

from collections.abc import Mapping, Sequence

import torch

from bascule.dialect.interpreter import Comparison, Reference, choose, compare, interpret, random_inputs, reference
from bascule.dialect.interpreter.values import left_of
from bascule.dialect.ir.functions import GRAPH, functions, graph_functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.errors import UserError

from ..debugging.compare_results import copied
from ..debugging.run_program import Inputs, is_program, returned, run_compiled
from ..pipelines import DEFAULT

LOOPS = ("bascule.compute", "bascule.scan", "bascule.scatter")  # what the tensor stage has outside of kernels


def in_torch_dialect(module: ir.Module) -> bool:
    return any("!torch." in str(function.attributes["function_type"]) for function in graph_functions(module))


def passes(module: ir.Module, pipeline: str) -> Pipeline:
    """The passes of a text; of "default", those that `torch.compile` runs on what `module` is."""
    if pipeline == "default":
        pipeline = ",".join(DEFAULT if in_torch_dialect(module) else DEFAULT[DEFAULT.index("torch-to-bascule") + 1 :])
    return Pipeline.parse(pipeline)


def copy_of(module: ir.Module) -> ir.Module:
    with module.context:
        return ir.Module.parse(module.operation.get_asm(enable_debug_info=True))


def after(module: ir.Module, pipeline: str) -> ir.Module:
    """A copy of `module` that `pipeline` has run on: passes, or "default"."""
    copy = copy_of(module)
    passes(module, pipeline).run(copy, verify=True)
    return copy


def as_program(module: ir.Module, function: str | None) -> ir.Module:
    """A copy at the program stage, with the rest of the default pipeline where `module` is before it, and `function` as its only graph.

    Raises `UserError` where `function` is no graph.
    """
    chosen = choose(module, function).attributes["sym_name"].value
    copy = copy_of(module)
    if GRAPH not in choose(copy, chosen).attributes:
        raise UserError(
            f"@{chosen} is no graph function, and only such are compiled", location="--compare", hint=f"mark it {GRAPH}"
        )
    for other in list(functions(copy)):
        if GRAPH in other.attributes and other.attributes["sym_name"].value != chosen:
            other.erase()
    if is_program(copy):
        return copy
    ops = {op.operation.name for f in functions(copy) for b in f.regions[0].blocks for op in b.operations}
    formed = "bascule.kernel" in ops and not ops & {*LOOPS}
    rest = ["isolate-kernels", *DEFAULT[DEFAULT.index("choose-products") :]]
    passes(copy, ",".join(rest) if formed else "default").run(copy, verify=True)
    return copy


def tensors(values: Inputs) -> list[torch.Tensor]:
    return [left_of(value) for value in values if isinstance(value, torch.Tensor)]


class Check:
    """The results of a function of a module on `inputs`, seeded ones if there are none, for comparison with those after passes.

    `start` is the module, one of the torch dialect after the pass `conversion`, with its options. `results` are those of the function,
    evaluated in the precision of its types; others may be `slack` times as far from f64 as the interpreter allows. Operators that draw random
    numbers draw the same in each run. Raises `InterpreterError` for IR that cannot be run.
    """

    def __init__(
        self,
        module: ir.Module,
        function: str | None = None,
        *,
        seed: int = 0,
        shapes: Mapping[str, int] | None = None,
        tolerance: float | None = None,
        inputs: Inputs | None = None,
        conversion: str = "torch-to-bascule",
        slack: float = 1,
    ):
        self.start = after(module, conversion) if in_torch_dialect(module) else module
        self.function, self.seed, self.tolerance = function, seed, tolerance
        if inputs is None:
            inputs = random_inputs(self.start, function, seed=seed, shapes=shapes)
        self.inputs = inputs
        torch.manual_seed(seed)
        self.reference = reference(self.start, self.inputs, function).relaxed(slack)
        self.results = self.reference.own[: len(self.reference.own) - len(tensors(self.inputs))]

    def interpreted(self, module: ir.Module) -> tuple[Comparison, list[torch.Tensor]]:
        """How the interpretation of `module` compares, and its results."""
        own = self.fresh_inputs()
        results = interpret(module, own, self.function)
        return self.compare(self.reference, [*results, *tensors(own)]), results

    def compiled(self, module: ir.Module) -> Comparison:
        """How the compiled `module`, of any stage, compares."""
        program, own = as_program(module, self.function), self.fresh_inputs()
        outputs = run_compiled(program, own)
        count, total = len(self.results), len(self.reference.own)
        numbers = [*returned(program, list(range(count))), *range(count, total)]
        return self.compare(self.reference.select(numbers), [*outputs, *tensors(own)])

    def fresh_inputs(self) -> Inputs:
        """Copies of the inputs, with the generator of random numbers as it was for eager's results."""
        torch.manual_seed(self.seed)
        return [copied(value) for value in self.inputs]

    def compare(self, wanted: Reference, got: Sequence[torch.Tensor]) -> Comparison:
        """How `got`, results and then inputs as they are left, compares with `wanted`."""
        return wanted.compare(got) if self.tolerance is None else compare(wanted.own, got, self.tolerance)
