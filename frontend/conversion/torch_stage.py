"""Reading the torch stage: an op's operator name, the constants it takes, the types and sizes of the tensors it makes."""

import re
from collections.abc import Callable
from typing import Any

from bascule.dialect.contract.layouts import far
from bascule.dialect.errors import UnsupportedError, UserError
from bascule.dialect.ir.attributes import LayoutAttr, value_of
from bascule.dialect.ir.functions import EFFECTS, SHAPES
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.shapes import expr
from bascule.dialect.ir.signatures import layout_complaint
from bascule.dialect.mlir import ir

EXPR, LAYOUTS = "bascule.expr", "bascule.layouts"
DECOMPOSED = "bascule.decomposed"  # on a cast that the decomposition of another operator makes: not the user's own
INSIDE = "bascule.inside"  # on `as_strided` and its like: their places are those of elements of their first operand
LIST = "torch.prim.ListConstruct"
COMPLEX = "torch.constant.complex"

# An op that holds one Python value -> how to read it. The torch dialect has no complex numbers: theirs is a `torch.operator`.
CONSTANTS: dict[str, Callable[[ir.Operation], Any]] = {
    "torch.constant.none": lambda op: None,
    **{
        f"torch.constant.{kind}": lambda op: op.attributes["value"].value
        for kind in ("int", "float", "bool", "str", "device", "number")
    },
    COMPLEX: lambda op: complex(*op.attributes["value"]),
}


def full_name(op: ir.Operation) -> str:
    """`torch.aten.add.Tensor`, whether it is an op of the torch dialect or a `torch.operator`."""
    return op.attributes["name"].value if op.name == "torch.operator" else op.name


def operator_name(op: ir.Operation) -> str:
    """`aten.add.Tensor` for `torch.aten.add.Tensor`, `aten.mm.default` for `torch.aten.mm`; the same through `torch.operator`."""
    name = full_name(op).removeprefix("torch.")
    return name if name.count(".") >= 2 else f"{name}.default"


def has_effect(op: ir.Operation) -> bool:
    """Whether the op does something besides making its results: it says so, returns nothing, or its operator's name ends in `_`."""
    if not len(op.results) or EFFECTS in op.attributes:
        return True
    if op.name == LIST or full_name(op) in CONSTANTS:
        return False
    base = operator_name(op).split(".")[1]
    return base.endswith("_") and not base.endswith("__")


def symbolic_value(op: ir.Operation, symbols: int) -> int | ir.AffineExpr | None:
    """The integer that an op with `bascule.expr` stands for in a function of so many symbols, else None. Of an operator that gives tensors too,
    as attention does on a GPU, integers are known to the operator alone."""
    if EXPR not in op.attributes:
        if len(op.results) and all(str(result.type) == "!torch.int" for result in op.results):
            raise malformed(op, EXPR, "is missing: which integer it makes is not known")
        return None
    expression = value_of(op.attributes, EXPR)
    map_ = expression.value if isinstance(expression, ir.AffineMapAttr) else None
    if map_ is None or map_.n_dims or len(map_.results) != 1 or map_.n_symbols > symbols:
        raise malformed(op, EXPR, f"is {expression}: affine_map<()[s0, ...] -> (..)>, of {symbols} symbols, is needed")
    (result,) = map_.results
    return result.value if isinstance(result, ir.AffineConstantExpr) else result


class VTensors:
    """Torch dialect types as (shape, element type): `!torch.vtensor<[2,?],si64>` is `([2, dynamic], i64)`. Parsed once a type.

    A number computed when the graph runs, `!torch.float`, is a tensor of rank 0: `([], f64)`.
    """

    _VTENSOR = re.compile(r"!torch\.v?tensor<\[([\d,?]*)\],(.*)>")

    def __init__(self) -> None:
        self.known: dict[ir.Type, tuple[list[int], ir.Type] | None] = {}

    def parse(self, type_: ir.Type) -> tuple[list[int], ir.Type] | None:
        """The shape and element type of a tensor type; None for a type that is not a tensor's."""
        if type_ not in self.known:
            text = str(type_)
            if text == "!torch.float":
                text = "!torch.vtensor<[],f64>"
            match = self._VTENSOR.fullmatch(text)
            dynamic = ir.ShapedType.get_dynamic_size()
            self.known[type_] = (
                None
                if match is None
                else (
                    [dynamic if size == "?" else int(size) for size in match[1].split(",") if size],
                    ir.Type.parse(match[2].replace("si", "i", 1) if match[2].startswith("si") else match[2]),
                )
            )
        return self.known[type_]

    def tensor(
        self, type_: ir.Type, layout: ir.Attribute | None, sizes: ir.AffineMap | None
    ) -> tuple[ir.RankedTensorType, list[ir.AffineExpr]] | None:
        """The type and sizes at the tensor stage; None for what is not a tensor. `sizes` is needed where a size is dynamic."""
        parsed = self.parse(type_)
        if parsed is None:
            return None
        shape, element = parsed
        encoding = None if layout is None or isinstance(layout, ir.UnitAttr) else layout
        exprs = list(sizes.results) if sizes is not None else [expr(size) for size in shape]
        return ir.RankedTensorType.get(shape, element, encoding), exprs

    def results(
        self, op: ir.Operation, symbols: int
    ) -> tuple[list[ir.RankedTensorType | None], list[list[ir.AffineExpr] | None]]:
        """The tensor-stage types and sizes of an op's results, in a function of so many symbols; None for a result that is not a tensor."""
        layouts, shapes = _of_results(op, LAYOUTS), _of_results(op, SHAPES)
        types, sizes = [], []
        for layout, shape, result in zip(layouts, shapes, op.results):
            wrong = self.complaint(result.type, layout, shape, symbols)
            if wrong is not None:
                raise malformed(op, {"sizes": SHAPES, "layout": LAYOUTS}[wrong[0]], wrong[1])
            pair = self.tensor(result.type, layout, shape.value if isinstance(shape, ir.AffineMapAttr) else None)
            types.append(pair and pair[0])
            sizes.append(pair and pair[1])
        return types, sizes

    def complaint(
        self, type_: ir.Type, layout: ir.Attribute | None, sizes: ir.Attribute | None, symbols: int
    ) -> tuple[str, str] | None:
        """Which of a tensor's "sizes" and "layout" do not say what its type leaves open, and why; a unit says as little as None."""
        shape, _ = self.parse(type_) or ([], None)
        dynamic = ir.ShapedType.get_dynamic_size() in shape
        if not isinstance(sizes, ir.AffineMapAttr):
            if dynamic or not isinstance(sizes, ir.UnitAttr | None):
                return "sizes", f"has {sizes} for {type_}: affine_map<()[s0, ...] -> (..)> is needed"
        elif (sizes.value.n_dims, len(sizes.value.results)) != (0, len(shape)) or sizes.value.n_symbols > symbols:
            return "sizes", f"has {sizes} for {type_}: {len(shape)} sizes, of {symbols} symbols, are needed"
        if not isinstance(layout, LayoutAttr):
            if dynamic or not isinstance(layout, ir.UnitAttr | None):
                return "layout", f"has {layout} for {type_}: #bascule.layout is needed"
            return None
        map_ = ir.AffineMapAttr(layout.map).value
        if (map_.n_dims, len(map_.results)) != (len(shape), 1) or map_.n_symbols > symbols:
            return "layout", f"has {layout} for {type_}: one of {len(shape)} dims, of {symbols} symbols, is needed"
        pair = self.tensor(type_, layout, sizes and sizes.value)
        wrong = pair and (layout_complaint(pair[0], symbols) or far(pair[0]))
        return ("layout", f"gives {pair[0]}, which {wrong}") if pair and wrong else None


def _of_results(op: ir.Operation, name: str) -> list[ir.Attribute | None]:
    """The entries of an attribute that has one for each result; Nones where it is not there."""
    if name not in op.attributes:
        return [None] * len(op.results)
    found = value_of(op.attributes, name)
    if not isinstance(found, ir.ArrayAttr) or len(found) != len(op.results):
        raise malformed(op, name, f"is no array of an entry for each of {len(op.results)} results")
    return list(found)


def malformed(op: ir.Operation, name: str, complaint: str) -> UserError:
    """The error for an attribute that does not say what the stage needs."""
    return UserError(f"'{name}' of '{op.name}' {complaint}", location=source_of(op.location))


def unsupported(op: ir.Operation, operator: str, reason: str) -> UnsupportedError:
    """The error for an operator that is not taken, at the user's line."""
    return UnsupportedError(f"{operator}: {reason}", operator=operator, location=source_of(op.location))
