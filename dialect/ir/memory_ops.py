"""Operations about where values live: store, scatter, view, copy_into."""

from collections.abc import Sequence
from typing import Any

from ..mlir import ext, ir
from .attributes import value_of
from .definition import Bascule, Writes, declare, fail
from .loop_ops import (
    sign_hint,
    symbols_around,
    verify_body,
    verify_place,
    verify_ranges,
    verify_size_map,
    verify_sizes,
)
from .types import scalar_type

# How a store combines with what is there. Absent on the op: "set". `minu`, `maxu` are unsigned; floats: NaN wins.
STORE_MODES = ("set", "add", "mul", "min", "max", "minu", "maxu")


WHOLE = "bascule.whole"  # on a scatter: its stores write every element, so that its init need not be anywhere


def shaped(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType | ir.MemRefType)


@declare
class StoreOp(Bascule.Operation, name="store", traits=[Writes]):
    """Writes one element of a destination (a tensor in the kernel stage, a memref in the program stage).

    With the optional attribute `mode` it combines with what is there, atomically where points may meet. For examples see `bascule.kernel`
    and `bascule.scatter`.
    """

    value: ir.Value[Any]
    dest: ir.Value[Any]
    indices: Sequence[ir.Value[ir.IndexType]]

    @property
    def mode(self) -> str:
        attributes = self.operation.attributes
        return attributes["mode"].value if "mode" in attributes else "set"

    def verify_invariants(self) -> bool:
        type_ = self.dest.type
        if not shaped(type_):
            return fail(self, f"stores into a ranked tensor or memref, got {type_}")
        if len(self.indices) != type_.rank:
            return fail(self, f"has {len(self.indices)} indices for a destination of rank {type_.rank}")
        want = scalar_type(type_.element_type)
        if self.value.type != want:
            return fail(self, f"stores {self.value.type} into elements of type {want}{sign_hint(self.value.type)}")
        attributes = self.operation.attributes
        if "mode" in attributes and not isinstance(value_of(attributes, "mode"), ir.StringAttr):
            return fail(self, "has a 'mode' that is no text")
        if self.mode not in STORE_MODES:
            return fail(self, f"has the unknown mode '{self.mode}'; known: {', '.join(STORE_MODES)}")
        if not verify_place(self, "bascule.kernel", "bascule.foreach", "bascule.scatter"):
            return False
        read = None if isinstance(type_, ir.MemRefType) else _read_after(self.operation)
        return read is None or fail(
            self,
            f"writes what '{read.name}' below reads: a tensor's elements do not change, and cse takes that for granted",
        )


def _read_after(store: ir.Operation) -> ir.Operation | None:
    """An op after `store`, in the order of the text, that reads the tensor that it writes."""
    for use in store.operands[1].uses:
        user = use.owner.operation
        if user.name == "tensor.extract" and _is_before(store, user):
            return user
    return None


def _is_before(first: ir.Operation, second: ir.Operation) -> bool:
    """Whether `first` stands before `second`, by the innermost block around both; those of two regions of an op have none."""
    around = {}
    op: Any = first
    while op is not None and op.operation.name != "func.func":
        around[op.operation.block] = op.operation
        op = op.operation.parent
    op = second
    while op is not None and op.operation.name != "func.func":
        if op.operation.block in around:
            return around[op.operation.block].is_before_in_block(op.operation)
        op = op.operation.parent
    return False


@declare
class ScatterOp(Bascule.Operation, name="scatter", traits=[ext.Pure]):
    """`init` with elements written at computed indices: the result is a new value.

    The region runs at every point of `ranges`; its last block argument is the destination, of `init`'s type, which holds `init`'s
    elements before the first store. Stores of mode "set" to one place: the last point in row-major order wins. The optional attribute
    `bascule.whole` promises that every element is stored to: then what `init` holds is not written first.

    ```mlir
    func.func @added_at(%init: tensor<10xf32>, %at: tensor<4xi64> {bascule.range = [0, 10]}, %x: tensor<4xf32>) -> tensor<10xf32> {
      %0 = "bascule.scatter"(%init) ({
      ^bb0(%i: index, %dest: tensor<10xf32>):
        %place = tensor.extract %at[%i] : tensor<4xi64>
        %index = arith.index_cast %place : i64 to index
        %e = tensor.extract %x[%i] : tensor<4xf32>
        "bascule.store"(%e, %dest, %index) {mode = "add"} : (f32, tensor<10xf32>, index) -> ()
        "bascule.yield"() : () -> ()
      }) {ranges = affine_map<() -> (4)>} : (tensor<10xf32>) -> tensor<10xf32>
      return %0 : tensor<10xf32>
    }
    ```
    """

    init: ir.Value[Any]
    ranges: ir.AffineMapAttr
    out: ir.OpResult[Any]
    body: ir.Region

    def verify_invariants(self) -> bool:
        source, result = self.operation.operands[0].type, self.operation.results[0].type
        if not isinstance(source, ir.RankedTensorType):
            return fail(self, f"scatters into a ranked tensor, got {source}")
        if (source.shape, source.element_type) != (result.shape, result.element_type):
            return fail(self, f"has a result of {result} for an init of {source}")
        rank = len(self.ranges.value.results)
        return verify_ranges(self) and verify_body(self, rank, 0, [result]) and verify_place(self, "func.func")


@declare
class ViewOp(Bascule.Operation, name="view", traits=[ext.Pure]):
    """The same elements under other indices: `out[i] = source[map(i)]`; `shape` gives the sizes of `out`.

    `fold-views` makes loads through it loads of the source. One that stays (it feeds an ATen operator or an
    output) is an alias of the source's memory: then the result's layout is the source's layout after `map`.

    ```mlir
    func.func @transposed(%x: tensor<4x8xf32>) -> tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 8)>>> {
      %0 = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (8, 4)>}
          : (tensor<4x8xf32>) -> tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 8)>>>
      return %0 : tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 8)>>>
    }
    ```
    """

    source: ir.Value[Any]
    map: ir.AffineMapAttr
    shape: ir.AffineMapAttr
    out: ir.OpResult[Any]

    def verify_invariants(self) -> bool:
        source, result = self.operation.operands[0].type, self.operation.results[0].type
        if not (shaped(source) and shaped(result)):
            return fail(self, f"views a ranked tensor as a ranked tensor, got {source} and {result}")
        map_, shape = self.map.value, self.shape.value
        if map_.n_dims != result.rank or len(map_.results) != source.rank:
            return fail(
                self,
                f"has a map of {map_.n_dims} dims to {len(map_.results)} results for ranks {result.rank} and {source.rank}",
            )
        known = symbols_around(self.operation)
        if known is not None and map_.n_symbols > known:
            return fail(self, f"has a 'map' of {map_.n_symbols} symbols in a function of {known}")
        if len(shape.results) != result.rank:
            return fail(self, f"expects 'shape' to give {result.rank} sizes, got {shape}")
        if source.element_type != result.element_type:
            return fail(self, f"changes the element type {source.element_type} to {result.element_type}")
        if not (verify_size_map(self, "shape") and verify_sizes(self, "size", shape.results)):
            return False
        return verify_place(self, "func.func")


@declare
class CopyIntoOp(Bascule.Operation, name="copy_into", traits=[Writes]):
    """A mutated input's final value, written back: every element of `value` into `dest`, an argument of the function, which in the tensor
    stage nothing below reads.

    ```mlir
    func.func @negated_in_place(%x: tensor<8xf32>) {
      %0 = "bascule.compute"() ({
      ^bb0(%i: index):
        %e = tensor.extract %x[%i] : tensor<8xf32>
        %neg = arith.negf %e : f32
        "bascule.yield"(%neg) : (f32) -> ()
      }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
      "bascule.copy_into"(%0, %x) : (tensor<8xf32>, tensor<8xf32>) -> ()
      return
    }
    ```
    """

    value: ir.Value[Any]
    dest: ir.Value[Any]

    def verify_invariants(self) -> bool:
        value, dest = (operand.type for operand in self.operation.operands)
        if not (shaped(value) and shaped(dest)) or (value.shape, value.element_type) != (dest.shape, dest.element_type):
            return fail(self, f"copies {value} into {dest}: shapes and element types must be equal")
        if not isinstance(self.operation.operands[1].owner, ir.Block):
            return fail(self, "writes to what is no argument of the function")
        return verify_place(self, "func.func")
