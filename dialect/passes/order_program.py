"""The pass `order-program`: an order of the calls that needs less memory."""

from dataclasses import dataclass
from typing import ClassVar

from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class OrderProgram(Pass):
    """Takes the kernel stage; leaves the calls of each graph function in an order of no higher peak memory."""

    name: ClassVar[str] = "order-program"

    def run(self, module: ir.Module) -> None:
        return
