"""Which values of a kernel may be approximated: those of which nothing is left but numbers rounded to 16 or 8 bits.

The approximate functions of `approximations.py` err in the last bits of f32; a value that is rounded to 16 bits where it is stored or cast does
not show it. Nor does one that a program rounds and a fusion does not (`drop-roundings` marks those), nor a score that tensor cores sum: they cut
more bits off. Everything else (f32 results, comparisons with a finite number, conversions to integers, positions) is computed exactly.
"""

from math import isinf

from bascule.dialect.analysis.bodies.body_tree import POSITIONS
from bascule.dialect.ir.types import ROUNDED, is_narrow
from bascule.dialect.mlir import ir

# Small differences become large ones.
STEPS = {
    *("arith.cmpf", "arith.fptosi", "arith.fptoui", "arith.bitcast", "arith.remf"),
    *("math.floor", "math.ceil", "math.round", "math.roundeven", "math.trunc"),
}


class Precision:
    """Answers for the values of one kernel; remembers."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, bool] = {}
        self.scores: set[ir.Operation] = set()  # rows of scores that tensor cores sum

    def exact(self, value: ir.Value) -> bool:
        """Whether the last bits of a float `value` may be seen."""
        found = self._known.get(value)
        if found is None:
            uses = () if _is_rounded(value) else value.uses
            found = self._known[value] = any(self._seen(use.owner.operation, use.operand_number) for use in uses)
        return found

    def _seen(self, user: ir.Operation, number: int) -> bool:
        name = user.name
        if name == "bascule.store":
            return not is_narrow(user.operands[1].type.element_type)
        if name == "arith.truncf" and is_narrow(user.results[0].type):
            return False
        if name == "arith.cmpf" and any(map(_is_infinite, user.operands)):
            return False
        if (
            name in ("scf.while", "scf.condition")
            or name in STEPS
            or (name == "bascule.reduce" and user.attributes["kind"].value in POSITIONS)
        ):
            return True
        if name in ("bascule.yield", "scf.yield"):
            parent = user.parent.operation
            if parent in self.scores:
                return False
            if parent.name == "scf.while":
                return True
            if "kind" in parent.attributes and parent.attributes["kind"].value in POSITIONS:
                return True
            results = [parent.results[number]] if name == "scf.yield" else list(parent.results)
            return any(self.exact(result) for result in results)
        return any(self.exact(result) for result in user.results)


def _is_rounded(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and ROUNDED in value.owner.attributes


def _is_infinite(value: ir.Value) -> bool:
    """Whether `value` is an infinite constant: what is finite stays finite where it is approximated."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == "arith.constant" and isinf(owner.attributes["value"].value)
