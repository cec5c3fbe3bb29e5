"""Seconds that a call of a graph function takes: kernels by their bytes, products by their operations, collectives by a machine of links."""

from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import Any

from ..ir.functions import EXTERN
from ..ir.types import byte_width
from ..machines.measures import measures
from ..mlir import ir
from .calls import Start
from .simulation import Filling, Slowed, Times

SYMBOL = 64  # the size assumed of a symbol
PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "mkldnn._linear_pointwise")
ATTENTION = "scaled_dot_product"
Tensor = tuple[list[int], float]  # its sizes, and the bytes of an element


class CallCosts:
    """Times on a machine of what is no collective. `symbol`: the size assumed of a symbol."""

    def __init__(self, machine: str, symbol: int = SYMBOL):
        self.symbol = symbol
        self.machine = {name: measure.value for name, measure in measures(machine).items()}
        self.launch = self.machine["launch"]

    def call(self, op: ir.Operation, table: ir.SymbolTable) -> tuple[float, Filling | None]:
        """Of any other op, nothing if it is no call; and how it fills the multiprocessors, if it is a product."""
        if op.name not in ("func.call", "memref.copy", "bascule.copy_into"):
            return 0.0, None
        tensors = [
            (_sizes(v.type, self.symbol), byte_width(v.type.element_type))
            for v in (*op.operands, *op.results)
            if isinstance(v.type, ir.ShapedType)
        ]
        function = table[op.attributes["callee"].value].operation if op.name == "func.call" else None
        operator = function.attributes[EXTERN].value if function is not None and EXTERN in function.attributes else ""
        return self.of(operator, tensors)

    def of(self, operator: str, tensors: Sequence[Tensor]) -> tuple[float, Filling | None]:
        """Of a kernel, or an operator's, that has these tensors, its result last."""
        moved = sum(prod(sizes) * width for sizes, width in tensors) / self.machine["memory_rate"]
        computed = 0.0
        if tensors and (operations := _operations(operator, [sizes for sizes, _ in tensors])):
            computed = operations / self.machine["product_rate" if tensors[0][1] <= 2 else "product_rate_f32"]
        filling = self._filling(operator, [sizes for sizes, _ in tensors], computed) if computed > moved else None
        return self.launch + (filling.counter if filling else 0.0) + max(moved, computed), filling

    def _filling(self, operator: str, shapes: list[list[int]], seconds: float) -> Filling:
        """Blocks are a tile of the result each, of an attention some rows of a head, and all take as long. Those of many turns are counted."""
        if ATTENTION in operator:
            *heads, rows, _ = shapes[1 if "backward" in operator else 0]
            blocks = prod(heads) * ceil(rows / self.machine["attention_rows"])
        else:
            *batch, rows, columns = (1, *shapes[-1])
            tile_rows, tile_columns = self.machine["product_tile"]
            blocks = prod(batch) * ceil(rows / tile_rows) * ceil(columns / tile_columns)
        at_once = self.machine["sm_count"]
        turns = ceil(blocks / at_once)
        left = turns * at_once - blocks
        rest = seconds / turns if left else 0.0
        counter = self.machine["tile_counter"] if turns > self.machine["turns_without_counter"] else 0.0
        return Filling(seconds - rest, left, rest, counter)


class Costs(CallCosts):
    """Times on a machine, whose ranks are connected by `links`. `bandwidth`: bytes/s for all sizes, in place of the machine's."""

    def __init__(self, machine: str, links: str, bandwidth: float | None = None):
        super().__init__(machine)
        known: Mapping[str, Any] = {name: measure.value for name, measure in measures(links).items()}
        self.latency, self.passes = known["latency"], known["passes"]
        self.beside, self.memory, self.blocks = known["beside"], Slowed(*known["beside_memory"]), known["blocks"]
        self.rates = {int(size): rate for size, rate in known["bandwidth"].items()}
        if bandwidth:
            self.rates = {0: bandwidth}

    def collective(self, start: Start) -> float:
        """Of a collective, alone on the links. A group whose ranks nobody counted has many."""
        bytes_ = start.bytes or 0
        others = 1.0 if start.ranks is None else 1 - 1 / start.ranks
        rate = self.rates[max(size for size in self.rates if size <= bytes_)]
        return self.latency + self.passes.get(start.name, 1) * others * bytes_ / rate

    def copied(self, bytes_: float) -> float:
        """Of a kernel that reads so many bytes and writes them."""
        return self.launch + 2 * bytes_ / self.machine["memory_rate"]

    def times(self, ops: Sequence[float], alone: dict[int, float], filling: Mapping[int, Filling]) -> Times:
        """For the simulator: of ops, collectives `alone` on the links, and products among the ops."""
        machine = self.machine
        how = {name: machine[name] for name in ("gap", "copy_gap", "event")}
        return Times(
            ops,
            alone,
            self.beside,
            filling,
            **how,
            blocks=self.blocks,
            multiprocessors=machine["sm_count"],
            memory=self.memory,
        )


def _sizes(type_: ir.ShapedType, symbol: int) -> list[int]:
    return [type_.get_dim_size(i) if not type_.is_dynamic_dim(i) else symbol for i in range(type_.rank)]


def _operations(operator: str, shapes: list[list[int]]) -> float:
    """Of a product or an attention; 0 of what is bound by memory."""
    name = operator.rsplit(".", 1)[0]
    if name in PRODUCTS:
        *_, inner = shapes[0] if "add" not in name else shapes[1]
        return 2.0 * prod(shapes[-1]) * inner
    if ATTENTION in name:
        backward = "backward" in name
        query_key = shapes[1:3] if backward else shapes[:2]
        if len(query_key) == 2 and all(
            len(shape) >= 2 for shape in query_key
        ):  # another library may have an operator of such a name
            query, key = query_key
            return (10.0 if backward else 4.0) * prod(query) * key[-2]
    return 0.0
