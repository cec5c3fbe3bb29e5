"""The collectives among the calls of a graph function: their kind, group and bytes, and what waits for them.

A collective begins with one call and ends with a wait for each result. All ranks of a group have to begin the same ones in one order, so
whatever decides about that order looks only at what all ranks have alike: kinds, groups, dtypes, static sizes, and which collective
needs the result of which. Sizes that are symbols, kernels and their costs differ from rank to rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ..ir.functions import ARGUMENTS, BEGINS, EFFECTS, EXTERN, RANKS
from ..ir.types import byte_width
from ..mlir import ir

NAMESPACE = "_c10d_functional."
WAIT = f"{NAMESPACE}wait_tensor.default"
LOCAL = ("aten.", "prims.", "prim.", "bascule.", "bascule_host.")  # as `frontend/fx/operator_effects.py` has it
# Kind -> the operator that does several at once; the positions of the first argument, and of the group, are alike.
COALESCED = {
    f"{NAMESPACE}{kind}.default": f"{NAMESPACE}{kind}_coalesced.default"
    for kind in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
}
# An operator that works on a copy of what it is given -> the one that works on that.
IN_PLACE = {
    f"{NAMESPACE}{kind}.default": f"{NAMESPACE}{kind}_.default"
    for kind in ("all_reduce", "all_reduce_coalesced", "broadcast")
}
GATHERS = tuple(name for kind in COALESCED if "all_gather" in kind for name in (kind, COALESCED[kind]))


@dataclass(frozen=True)
class Start:
    """The call that begins a collective. `number`: of its op. `kind`: the operator. `rest`: its arguments besides tensors, as text; the last is
    the group. `sent`, `received`: the bytes of what it takes and gives; None where a size is a symbol. `single`: it takes one tensor and gives
    one. `ranks`: of the group, where known. `waits`: the numbers of the waits."""

    number: int
    kind: str
    rest: tuple[str, ...]
    dtype: str
    sent: int | None
    received: int | None
    single: bool
    ranks: int | None = None
    waits: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """`all_reduce`."""
        kind = self.kind.removeprefix(NAMESPACE).removesuffix(".default").removesuffix("_")
        return kind.removesuffix("_coalesced")

    @property
    def bytes(self) -> int | None:
        """Of the whole tensor, of which each rank has a part before or after."""
        return None if self.sent is None or self.received is None else max(self.sent, self.received)


@dataclass
class Collectives:
    """`starts`, by number of their op, in the order of the program. `waits`: number of a wait -> that of the start. `others`: numbers of
    calls with effects that other ranks may see. `local`: those that they cannot, as checks and draws: a rank may have them or not."""

    starts: dict[int, Start] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    local: list[int] = field(default_factory=list)


def collectives_of(ops: Sequence[ir.Operation], table: ir.SymbolTable) -> Collectives:
    """The collectives among `ops`, those of a graph function's block, of tensors or of memrefs."""
    found = Collectives()
    makers: dict[ir.Value, int] = {}
    waits: dict[int, list[int]] = {}
    for number, op in enumerate(ops):
        if op.name != "func.call":
            continue
        function = table[op.attributes["callee"].value].operation
        if EFFECTS not in function.attributes:
            continue
        callee = function.attributes[EXTERN].value
        if callee == WAIT and op.operands[0] in makers:
            found.waits[number] = makers[op.operands[0]]
            waits.setdefault(makers[op.operands[0]], []).append(number)
        elif callee.startswith(NAMESPACE) and BEGINS in function.attributes:
            makers.update(dict.fromkeys(op.results or op.operands, number))
            found.starts[number] = _start(number, op, callee, function)
        elif callee.startswith(LOCAL):
            found.local.append(number)
        else:
            found.others.add(number)
    for number, ends in waits.items():
        found.starts[number] = replace(found.starts[number], waits=tuple(ends))
    return found


def _start(number: int, op: ir.Operation, callee: str, function: ir.Operation) -> Start:
    rest = tuple(str(attribute) for attribute in list(function.attributes[ARGUMENTS])[1:])
    dtype = str(op.operands[0].type.element_type) if len(op.operands) else ""
    made = op.results or op.operands  # it works in place
    single = len(op.operands) == len(op.results) == 1
    ranks = function.attributes[RANKS].value if RANKS in function.attributes else None
    return Start(number, callee, rest, dtype, bytes_of(op.operands), bytes_of(made), single, ranks)


def bytes_of(values: Sequence[ir.Value]) -> int | None:
    """The bytes of tensors or memrefs together; None where a size is a symbol."""
    types = [value.type for value in values if isinstance(value.type, ir.ShapedType)]
    if not all(type_.has_static_shape for type_ in types):
        return None
    return sum(prod(type_.shape) * byte_width(type_.element_type) for type_ in types)
