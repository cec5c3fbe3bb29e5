"""A pass that notes something at an op of a body."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass
from bascule.dialect.remarks.attribute import add_remark, place
from bascule.dialect.remarks.record import MISSED, Remark


@dataclass(frozen=True)
class NotePowers(Pass):
    """Takes any stage; leaves it as it is."""

    name: ClassVar[str] = "note-powers"

    def run(self, module: ir.Module) -> None:
        for op in ops_in(module.operation):
            if op.name == "math.powf":
                add_remark(op, Remark(self.name, MISSED, "not squared", "its exponent is not known", place(op)))
