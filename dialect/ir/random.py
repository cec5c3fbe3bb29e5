"""Random numbers as pure functions of a seed and a counter."""

from typing import Any

from ..mlir import ext, ir
from .definition import Bascule, declare, fail

# distribution -> what the result's type may be
DISTRIBUTIONS = {
    "uniform": ("f32", "f64"),  # in [0, 1)
    "normal": ("f32", "f64"),  # mean 0, variance 1 (Box-Muller)
    "bits": ("i32", "i64"),
}


@declare
class RandomOp(Bascule.Operation, name="random", traits=[ext.Pure]):
    """One number from Philox4x32-10 (Salmon et al., SC'11): key = `seed`, counter = `offset`, both i64."""

    seed: ir.Value[Any]
    offset: ir.Value[Any]
    distribution: ir.StringAttr
    out: ir.OpResult[Any]

    def verify_invariants(self) -> bool:
        name = self.distribution.value
        if name not in DISTRIBUTIONS:
            return fail(self, f"has the unknown distribution '{name}'; known: {', '.join(DISTRIBUTIONS)}")
        i64 = ir.IntegerType.get_signless(64, context=self.operation.context)
        if any(operand.type != i64 for operand in self.operation.operands):
            return fail(self, "takes a seed and an offset of type i64")
        result = self.operation.results[0].type
        if str(result) not in DISTRIBUTIONS[name]:
            return fail(self, f"of distribution '{name}' gives {' or '.join(DISTRIBUTIONS[name])}, got {result}")
        return True
