"""The pass `plan-memory`: intermediates share one arena."""

from dataclasses import dataclass
from typing import ClassVar

from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Takes the program stage with an allocation each buffer; leaves the intermediates in one arena."""

    name: ClassVar[str] = "plan-memory"

    def run(self, module: ir.Module) -> None:
        return
