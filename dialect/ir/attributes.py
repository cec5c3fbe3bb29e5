"""The attributes of the dialect: a tensor's layout, a kernel's schedule, an operand of an ATen call; and the numbers in them."""

from ..mlir import ir
from .definition import Bascule


def i64(value: int) -> ir.IntegerAttr:
    """`value` as a signless integer of 64 bits."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def literal(value: ir.Value) -> int | float | None:
    """The number that an `arith.constant` gives; None for another value."""
    op = value.owner
    return None if isinstance(op, ir.Block) or op.name != "arith.constant" else op.attributes["value"].value


def value_of(holder: ir.OpAttributeMap | ir.DictAttr, name: str) -> ir.Attribute | None:
    """The attribute `name`; None for one that the bindings have no class for (`array<ui8: 1>`). Iterating over a dictionary that has one ends
    the process."""
    try:
        return holder[name]
    except TypeError:
        return None


class LayoutAttr(Bascule.Attribute, name="layout"):
    """Logical index -> element offset from the tensor's first element: `#bascule.layout<affine_map<(d0, d1) -> ...>>`.

    It is a tensor type's encoding. A type without one is row-major contiguous and static; a tensor with a dynamic
    dimension always has one. Strides, storage offsets, channels-last and expanded (stride 0) dimensions are all this map.
    Symbol `sK` is the K-th symbol (leading `index` argument) of the enclosing function.
    """

    map: ir.AffineMapAttr


class ScheduleAttr(Bascule.Attribute, name="schedule"):
    """Every decision of `schedule-kernels` about one kernel, as a dictionary: `#bascule.schedule<{vector = 16 : i64, ...}>`."""

    config: ir.DictAttr


class OperandAttr(Bascule.Attribute, name="operand"):
    """In `bascule.arguments` of an ATen function: here stands tensor operand number `index`. `#bascule.operand<0 : i64>`.

    ```mlir
    func.func private @aten.sum.dim_IntList(tensor<4x8xf32>) -> tensor<4xf32> attributes {
      bascule.extern = "aten.sum.dim_IntList",
      bascule.arguments = [#bascule.operand<0 : i64>, [1], false, unit],
      bascule.results = array<i64: 0>
    }
    func.func @sums(%x: tensor<4x8xf32>) -> tensor<4xf32> {
      %0 = call @aten.sum.dim_IntList(%x) : (tensor<4x8xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
    """

    index: ir.IntegerAttr
