"""The pass `inline-producers`: reads through views become reads of the source; views that stay are aliases."""

from dataclasses import dataclass
from typing import ClassVar

from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class InlineProducers(Pass):
    name: ClassVar[str] = "inline-producers"

    def run(self, module: ir.Module) -> None:
        pass
