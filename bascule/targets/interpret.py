"""The target `interpret`: Triton's IR, run by an interpreter on the CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bascule.lowering.program import Plans

from ..dialect.mlir import ir
from ..errors import UnsupportedError
from ..reporting.compile_record import Record
from .base import Compiled
from .kernel_fallback import Refusals
from .lower_to_triton import lower, with_references
from .placement import CPU


@dataclass(frozen=True)
class Interpret:
    """TTIR for an imagined GPU (an H100's numbers), run by the interpreter."""

    name, index, cached = "interpret", None, False

    @property
    def machine(self) -> Mapping[str, Any]:
        return {"target": "cuda"}

    def prepare(self) -> None:
        """Nothing compiles what it interprets."""

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.lowering.triton.interpreter.plans import InterpretedKernels
        from bascule.runtime.memory.poisoned_memory import PATTERN, begins_unwritten

        refusals = Refusals(module, record)
        lowered = lower(module, record, refusals)
        kernels = with_references(refusals, InterpretedKernels(module, lowered, PATTERN, begins_unwritten), CPU)
        return Compiled(kernels, Plans("cpu", lowered.launches, record.name))

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        raise UnsupportedError("the target 'interpret' makes no machine code", hint="leave the option 'target' out")

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        return None
