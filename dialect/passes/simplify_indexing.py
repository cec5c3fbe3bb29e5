"""The pass `simplify-indexing`: reads through views become reads of the source; views that stay are aliases."""

from dataclasses import dataclass
from typing import ClassVar

from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class SimplifyIndexing(Pass):
    name: ClassVar[str] = "simplify-indexing"

    def run(self, module: ir.Module) -> None:
        pass
