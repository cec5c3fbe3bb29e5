"""The first pass of a pipeline after which a module computes other numbers."""

import difflib
from dataclasses import dataclass

from bascule.dialect.interpreter import Comparison, InterpreterError, choose
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.memory_ops import CopyIntoOp
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline

from .checking import Check, copy_of, in_torch_dialect, passes


@dataclass(frozen=True)
class Found:
    """The pass `name`, number `position` of `count`, and the IR around it; `outcome` is None where results are the same after all."""

    count: int
    name: str = ""
    position: int = 0
    outcome: Comparison | None = None
    source: str | None = None  # of the operation that made the first result that differs
    before: str = ""
    after: str = ""

    def told(self) -> str:
        """The report: pass, elements, source line, and the difference of the two IRs."""
        if self.outcome is None:
            return f"match (interpreted) after each of {self.count} passes"
        lines = [f"mismatch after '{self.name}', pass {self.position} of {self.count}", *self.outcome.differences]
        if self.source is not None:
            lines.append(f"made at {self.source}")
        names = f"before {self.name}", f"after {self.name}"
        changes = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), *names, lineterm="")
        return "\n  ".join(lines) + "\n" + "\n".join(changes)


def first_difference(check: Check, module: ir.Module, pipeline: str) -> Found:
    """Runs the passes of `pipeline` one by one on a copy of `module`, whose results `check` knows, and interprets what each leaves.

    IR that cannot be run after a pass, and could before it, differs too. What a pass raises goes on to the caller.
    """
    copy, stages = copy_of(module), passes(module, pipeline).stages
    for position, stage in enumerate(stages, 1):
        before, sources = copy.operation.get_asm(), [] if in_torch_dialect(copy) else _sources(copy, check.function)
        Pipeline((stage,)).run(copy, verify=True)
        if in_torch_dialect(copy):
            continue
        try:
            outcome, _ = check.interpreted(copy)
        except InterpreterError as error:
            outcome = Comparison(float("inf"), (f"cannot be run: {error}",))
        if not outcome.match:
            number = next(iter(outcome.numbers), len(sources))
            source = sources[number] if number < len(sources) else None
            return Found(len(stages), stage.name, position, outcome, source, before, copy.operation.get_asm())
    return Found(len(stages))


def _sources(module: ir.Module, function: str | None) -> list[str | None]:
    """Where each result of the function is made; then, of each tensor argument, the value that is copied into it."""
    with module.context:
        block = choose(module, function).regions[0].blocks[0]
        ops = [view.operation for view in block.operations]
        written = {op.operands[1]: op.operands[0] for op in ops if op.name == CopyIntoOp.OPERATION_NAME}
        arguments = [a for a in block.arguments if not isinstance(a.type, ir.IndexType)]
        made = [*ops[-1].operands, *(written.get(a, a) for a in arguments)]
        return [source_of(_place(value)) for value in made]


def _place(value: ir.Value) -> ir.Location:
    owner = value.owner
    return owner.owner.location if isinstance(owner, ir.Block) else owner.location
