"""The pass `fold-views`: reads through views become reads of the source; views that stay are aliases."""

from dataclasses import dataclass
from typing import ClassVar

from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class FoldViews(Pass):
    name: ClassVar[str] = "fold-views"

    def run(self, module: ir.Module) -> None:
        pass
