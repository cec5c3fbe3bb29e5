"""Operations that give a program its loops: compute, reduce, scan, foreach, kernel, and the yield that ends their regions.

Their regions consist of upstream ops over scalars: `tensor.extract` reads, `arith` and `math` compute, `affine.apply` does index
arithmetic, `scf.if` guards. The region's block arguments are the point's indices, one `index` for each of `ranges`.
"""

from collections.abc import Sequence
from typing import Any

from ..mlir import ext, ir
from . import schedules
from .attributes import LayoutAttr, value_of
from .definition import Bascule, Writes, declare, fail
from .functions import GRAPH
from .regions import end_of
from .types import scalar_type, symbols_among

# kind -> number of results; `argmax` and `argmin` yield the (flattened) i64 position, the others the yielded type.
REDUCE_KINDS = {
    "sum": 1,
    "prod": 1,
    "max": 1,  # signed integers; floats: NaN wins, as in PyTorch
    "min": 1,
    "maxu": 1,  # unsigned integers
    "minu": 1,
    "any": 1,  # i1
    "all": 1,  # i1
    "xor": 1,
    "argmax": 1,  # the first position of the largest value; NaN wins
    "argmin": 1,
    "welford": 3,  # mean, sum of squared deviations from it, count: all of the yielded (float) type
    "softmax": 2,  # max, sum of exp(x - max): of the yielded (float) type
}
SCAN_KINDS = ("sum", "prod", "max", "min", "maxu", "minu", "logaddexp", "argmax", "argmin")
POSITION_KINDS = ("argmax", "argmin")  # i64 results


def verify_body(op: Any, rank: int, yields: int, extra: Sequence[ir.Type] = ()) -> bool:
    """The region has one block of `rank` indices (then `extra`), ended by a yield of `yields` values."""
    blocks = list(op.operation.regions[0].blocks)
    if len(blocks) != 1:
        return fail(op, f"expects a region of one block, got {len(blocks)}")
    types = [argument.type for argument in blocks[0].arguments]
    if len(types) != rank + len(extra):
        return fail(op, f"expects a block of {rank + len(extra)} arguments, one for each range, got {len(types)}")
    if any(not isinstance(t, ir.IndexType) for t in types[:rank]):
        return fail(op, "expects the block's indices to be of type 'index'")
    if types[rank:] != list(extra):
        return fail(op, f"expects the block to end with arguments of type {', '.join(map(str, extra))}")
    end = end_of(blocks[0]) if len(blocks[0].operations) else None
    if end is None or end.name != YieldOp.OPERATION_NAME:
        return fail(op, "expects its region to end with 'bascule.yield'")
    if len(end.operands) != yields:
        return fail(op, f"expects its region to yield {yields} value(s), got {len(end.operands)}")
    return True


def verify_place(op: Any, *around: str) -> bool:
    """The innermost op around that is of this dialect, or the function, is one of `around`. One that stands in neither is anywhere."""
    parent = op.operation.parent
    while parent is not None and not parent.operation.name.startswith(("bascule.", "func.")):
        parent = parent.operation.parent
    if parent is None or parent.operation.name in around:
        return True
    places = ", ".join(f"'{place}'" for place in around[:-1]) + " or " * (len(around) > 1) + f"'{around[-1]}'"
    return fail(op, f"stands in {places}, not in '{parent.operation.name}'")


def verify_ranges(op: Any) -> bool:
    """`ranges` is a size map, a constant size is not negative, and 64 bits count the points."""
    if not verify_size_map(op, "ranges"):
        return False
    points = 1
    for size in op.operation.attributes["ranges"].value.results:
        if isinstance(size, ir.AffineConstantExpr):
            if size.value < 0:
                return fail(op, f"has a negative range {size.value}")
            points *= size.value
    return points < 1 << 60 or fail(op, f"has {points} points: an address has fewer bits")


def verify_size_map(op: Any, name: str) -> bool:
    """The attribute `name` takes no dimensions, and no symbol beyond those of the function around the op."""
    sizes = op.operation.attributes[name].value
    if sizes.n_dims != 0:
        return fail(op, f"expects '{name}' to be a map of symbols only, affine_map<()[s0, ...] -> (...)>")
    if sizes.n_symbols:
        known = symbols_around(op.operation)
        if known is not None and sizes.n_symbols > known:
            return fail(op, f"has a '{name}' of {sizes.n_symbols} symbols in a function of {known}")
    return True


def symbols_around(op: ir.Operation) -> int | None:
    """How many leading `index` arguments the function around `op` has; None outside of functions."""
    parent = op.parent
    while parent is not None and parent.operation.name != "func.func":
        parent = parent.operation.parent
    if parent is None:
        return None
    return symbols_among(argument.type for argument in parent.operation.regions[0].blocks[0].arguments)


def verify_sizes(op: Any, name: str, sizes: Sequence[ir.AffineExpr]) -> bool:
    """The result, a tensor or memref, has `sizes`, each of which is called `name` and its number."""
    type_ = op.operation.results[0].type
    layout = type_.encoding if isinstance(type_, ir.RankedTensorType) else None
    if isinstance(layout, LayoutAttr) and (n_dims := ir.AffineMapAttr(layout.map).value.n_dims) != type_.rank:
        return fail(op, f"has a result of rank {type_.rank} with a layout of {n_dims} dims")
    for i, size in enumerate(sizes):
        constant = size.value if isinstance(size, ir.AffineConstantExpr) else None
        dim = None if type_.is_dynamic_dim(i) else type_.get_dim_size(i)
        if constant != dim:
            return fail(op, f"{name} {i} is {size} but the result's size there is {'?' if dim is None else dim}")
    return True


def verify_tensor_result(op: Any) -> bool:
    """The result is a tensor over `ranges`."""
    ranges, type_ = op.operation.attributes["ranges"].value, op.operation.results[0].type
    if not isinstance(type_, ir.RankedTensorType):
        return fail(op, f"expects a ranked tensor result, got {type_}")
    if type_.rank != len(ranges.results):
        return fail(op, f"has {len(ranges.results)} ranges but a result of rank {type_.rank}")
    return verify_sizes(op, "range", ranges.results)


def sign_hint(type_: ir.Type) -> str:
    """A hint for a scalar that has a sign, as elements in memory do; "" for others."""
    if scalar_type(type_) == type_:
        return ""
    return f": 'builtin.unrealized_conversion_cast' makes it signless, {type_} to {scalar_type(type_)}"


def yielded(op: Any) -> Sequence[ir.Value]:
    """The operands of the yield that ends the op's region."""
    return end_of(op.operation.regions[0].blocks[0]).operands


@declare
class YieldOp(Bascule.Operation, name="yield", traits=[ext.Pure, ir.IsTerminatorTrait]):
    """Ends a region of this dialect; its values (all of one type) are what the region computes: none in a region of stores."""

    values: Sequence[ir.Value[Any]]

    def verify_invariants(self) -> bool:
        parent = self.operation.parent
        if parent is None or parent.operation.name.startswith("bascule."):
            return True
        return fail(self, f"ends a region of an operation of this dialect, not of '{parent.operation.name}'")


@declare
class ComputeOp(Bascule.Operation, name="compute", traits=[ext.Pure]):
    """A tensor as a pure function of its index: element [i, j] is what the region yields for (i, j).

    Reads are `tensor.extract` of tensors defined above. Inside a kernel a compute is a tile that stays near the
    processor (registers, cache) for the point at hand.

    ```mlir
    func.func @twice_transposed(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
      %0 = "bascule.compute"() ({
      ^bb0(%i: index, %j: index):
        %e = tensor.extract %x[%j, %i] : tensor<4x8xf32>
        %sum = arith.addf %e, %e : f32
        "bascule.yield"(%sum) : (f32) -> ()
      }) {ranges = affine_map<() -> (8, 4)>} : () -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
    """

    ranges: ir.AffineMapAttr
    out: ir.OpResult[Any]
    body: ir.Region

    def verify_invariants(self) -> bool:
        rank = len(self.ranges.value.results)
        if not (verify_ranges(self) and verify_body(self, rank, 1) and verify_tensor_result(self)):
            return False
        want, got = scalar_type(self.operation.results[0].type.element_type), yielded(self)[0].type
        return want == got or fail(self, f"yields {got} for elements of type {want}{sign_hint(got)}")


@declare
class ReduceOp(Bascule.Operation, name="reduce", traits=[ext.Pure]):
    """Combines what the region yields over all of `ranges`, by `kind`; accumulates in the yielded type.

    ```mlir
    func.func @largest_of_rows(%n: index, %x: tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>>
        {bascule.shape = affine_map<()[s0] -> (s0, 8)>}) -> tensor<8xf32> {
      %0 = "bascule.compute"() ({
      ^bb0(%j: index):
        %max = "bascule.reduce"() ({
        ^bb0(%k: index):
          %e = tensor.extract %x[%k, %j] : tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>>
          "bascule.yield"(%e) : (f32) -> ()
        }) {kind = "max", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
        "bascule.yield"(%max) : (f32) -> ()
      }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```
    """

    kind: ir.StringAttr
    ranges: ir.AffineMapAttr
    outs: Sequence[ir.OpResult[Any]]
    body: ir.Region

    def verify_invariants(self) -> bool:
        kind = self.kind.value
        if kind not in REDUCE_KINDS:
            return fail(self, f"has the unknown kind '{kind}'; known: {', '.join(REDUCE_KINDS)}")
        if not (verify_ranges(self) and verify_body(self, len(self.ranges.value.results), 1)):
            return False
        if len(self.operation.results) != REDUCE_KINDS[kind]:
            return fail(self, f"of kind '{kind}' has {REDUCE_KINDS[kind]} result(s), got {len(self.operation.results)}")
        value = yielded(self)[0].type
        want = ir.IntegerType.get_signless(64, context=value.context) if kind in POSITION_KINDS else value
        for result in self.operation.results:
            if result.type != want:
                return fail(self, f"of kind '{kind}' yields {value}, so its results are {want}, got {result.type}")
        if kind in ("welford", "softmax") and not isinstance(value, ir.F32Type | ir.F64Type):
            return fail(self, f"of kind '{kind}' takes f32 or f64, got {value}")
        if kind in ("any", "all") and value != ir.IntegerType.get_signless(1, context=value.context):
            return fail(self, f"of kind '{kind}' takes i1, got {value}")
        return verify_place(
            self, *(f"bascule.{op}" for op in ("compute", "reduce", "scan", "scatter", "kernel", "foreach"))
        )


@declare
class ScanOp(Bascule.Operation, name="scan", traits=[ext.Pure]):
    """Running reduction along range number `dim`: element [.., k, ..] combines what the region yields for 0..k there.

    ```mlir
    func.func @cumsum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = "bascule.scan"() ({
      ^bb0(%i: index, %k: index):
        %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {dim = 1 : i64, kind = "sum", ranges = affine_map<() -> (4, 8)>} : () -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
    """

    kind: ir.StringAttr
    dim: ir.IntegerAttr
    ranges: ir.AffineMapAttr
    out: ir.OpResult[Any]
    body: ir.Region

    def verify_invariants(self) -> bool:
        kind, rank = self.kind.value, len(self.ranges.value.results)
        if kind not in SCAN_KINDS:
            return fail(self, f"has the unknown kind '{kind}'; known: {', '.join(SCAN_KINDS)}")
        if not 0 <= self.dim.value < rank:
            return fail(self, f"scans dim {self.dim.value} of {rank} ranges")
        if not (verify_ranges(self) and verify_body(self, rank, 1) and verify_tensor_result(self)):
            return False
        got = scalar_type(self.operation.results[0].type.element_type)
        value = yielded(self)[0].type
        want = ir.IntegerType.get_signless(64, context=value.context) if kind in POSITION_KINDS else value
        return got == want or fail(self, f"of kind '{kind}' yields {value}, so its elements are {want}, got {got}")


@declare
class ForeachOp(Bascule.Operation, name="foreach", traits=[Writes]):
    """Runs its region, for its stores, at every point of `ranges`, in any order or all at once. For an example see `bascule.kernel`."""

    ranges: ir.AffineMapAttr
    body: ir.Region

    def verify_invariants(self) -> bool:
        rank = len(self.ranges.value.results)
        return (
            verify_ranges(self)
            and verify_body(self, rank, 0)
            and verify_place(self, "bascule.kernel", "bascule.foreach")
        )


@declare
class KernelOp(Bascule.Operation, name="kernel", traits=[Writes]):
    """One launch: runs its region at every point of the parallel domain `ranges`, in any order.

    It is the body of a kernel function (see `dialect/ir/functions.py`): it reads that function's arguments and stores into its
    destinations. An optional `schedule` (`#bascule.schedule`) holds how it is to be run. With no ranges the region runs
    once and its top-level foreach ops are the parallel domains: several independent loops in one launch.

    ```mlir
    func.func private @normalized(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %out = bufferization.alloc_tensor() : tensor<4x8xf32>
      "bascule.kernel"() ({
      ^bb0(%i: index):
        %sum = "bascule.reduce"() ({
        ^bb0(%k: index):
          %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
          "bascule.yield"(%e) : (f32) -> ()
        }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
        "bascule.foreach"() ({
        ^bb0(%j: index):
          %e = tensor.extract %x[%i, %j] : tensor<4x8xf32>
          %share = arith.divf %e, %sum : f32
          "bascule.store"(%share, %out, %i, %j) : (f32, tensor<4x8xf32>, index, index) -> ()
          "bascule.yield"() : () -> ()
        }) {ranges = affine_map<() -> (8)>} : () -> ()
        "bascule.yield"() : () -> ()
      }) {ranges = affine_map<() -> (4)>} : () -> ()
      return %out : tensor<4x8xf32>
    }
    ```
    """

    ranges: ir.AffineMapAttr
    body: ir.Region

    def verify_invariants(self) -> bool:
        rank = len(self.ranges.value.results)
        if not (verify_ranges(self) and verify_body(self, rank, 0) and verify_place(self, "func.func")):
            return False
        told = self.operation.attributes
        wrong = schedules.complaint(value_of(told, "schedule")) if "schedule" in told else None
        if wrong:
            return fail(self, f"has a schedule that {wrong}")
        around = self.operation.parent
        if around is not None and GRAPH in around.operation.attributes:
            return fail(self, "is the body of a kernel function, which a graph function calls, and not in one itself")
        return True
