"""A pass that fails, as a bug in a pass would; a test and the command line load it."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class Raises(Pass):
    """Takes any module and raises."""

    name: ClassVar[str] = "test-raises"

    def run(self, module: ir.Module) -> None:
        raise KeyError("the injected failure")
