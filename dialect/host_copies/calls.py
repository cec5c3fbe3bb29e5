"""The copies to the host and back among the calls of a graph function: two calls each, one that begins it and one that waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..ir.functions import EXTERN
from ..ir.types import byte_width
from ..mlir import ir

NAMESPACE = "bascule_host."
TO_HOST, TO_DEVICE, WAIT = (f"{NAMESPACE}{name}.default" for name in ("to_host", "to_device", "wait_tensor"))
SYMBOL = 1024  # the size assumed of a symbol: what is copied is large


@dataclass(frozen=True)
class HostCopy:
    """`begin`, `wait`: the numbers of the calls; `kind`: the operator that begins it."""

    begin: int
    wait: int
    kind: str
    bytes: int

    @property
    def leaves(self) -> bool:
        """Whether it is one to the host."""
        return self.kind == TO_HOST


def callee(op: ir.Operation, table: ir.SymbolTable) -> str:
    """The operator that `op` calls; empty, if it calls none."""
    if op.name != "func.call":
        return ""
    attributes = table[op.attributes["callee"].value].operation.attributes
    return attributes[EXTERN].value if EXTERN in attributes else ""


def host_copies(ops: Sequence[ir.Operation], table: ir.SymbolTable) -> list[HostCopy]:
    """The copies among `ops`, those of a graph function's block, that are waited for."""
    begun: dict[ir.Value, tuple[int, str]] = {}
    found = []
    for number, op in enumerate(ops):
        name = callee(op, table)
        if name in (TO_HOST, TO_DEVICE):
            begun[op.results[0]] = number, name
        elif name == WAIT and op.operands[0] in begun:
            found.append(HostCopy(begun[op.operands[0]][0], number, begun[op.operands[0]][1], bytes_of(op.operands[0])))
    return found


def is_on_host(value: ir.Value, table: ir.SymbolTable) -> bool:
    """Whether `value` is a copy on the host, which no memory of the device's holds."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        name = callee(op, table)
        if name != WAIT:
            return name == TO_HOST
        value = op.operands[0]
    return False


def bytes_of(value: ir.Value) -> int:
    """The bytes of a tensor or a memref, with the same number for each symbol."""
    type_ = value.type
    sizes = [SYMBOL if type_.is_dynamic_dim(i) else type_.get_dim_size(i) for i in range(type_.rank)]
    return prod(sizes) * byte_width(type_.element_type)
