"""Random numbers as pure functions of a seed and a position."""

from typing import Any

from ..mlir import ext, ir
from .definition import Bascule, declare, fail

# distribution -> what the result's type may be
DISTRIBUTIONS = {
    "uniform": ("f32", "f64"),  # in [0, 1)
    "normal": ("f32", "f64"),  # mean 0, variance 1
    "bits": ("i32", "i64"),
}


@declare
class RandomOp(Bascule.Operation, name="random", traits=[ext.Pure]):
    """Number `position` (an index that is not negative) of the stream that `seed` (an i64) names: Philox4x32-10 (Salmon et al., SC'11).

    A number of 32 bits takes one of the generator's words, one of 64 bits two, normal numbers too (Box and Muller: two neighbours share
    two numbers). So four neighbours, or two, share a counter, which is computed once where a lowering knows them to stand side by side:
    32 bits: word `position mod 4` of counter `position div 4`; 64 bits: words `2 * (position mod 2)`, the low half, and the next one of
    counter `position div 2`.

    ```mlir
    func.func @uniform(%seed: tensor<i64>) -> tensor<16xf32> {
      %0 = "bascule.compute"() ({
      ^bb0(%i: index):
        %s = tensor.extract %seed[] : tensor<i64>
        %r = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
        "bascule.yield"(%r) : (f32) -> ()
      }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
      return %0 : tensor<16xf32>
    }
    ```
    """

    seed: ir.Value[Any]
    position: ir.Value[Any]
    distribution: ir.StringAttr
    out: ir.OpResult[Any]

    def verify_invariants(self) -> bool:
        name = self.distribution.value
        if name not in DISTRIBUTIONS:
            return fail(self, f"has the unknown distribution '{name}'; known: {', '.join(DISTRIBUTIONS)}")
        i64 = ir.IntegerType.get_signless(64, context=self.operation.context)
        seed, position = self.operation.operands
        if seed.type != i64 or not isinstance(position.type, ir.IndexType):
            return fail(self, "takes a seed of type i64 and a position of type index")
        result = self.operation.results[0].type
        if str(result) not in DISTRIBUTIONS[name]:
            return fail(self, f"of distribution '{name}' gives {' or '.join(DISTRIBUTIONS[name])}, got {result}")
        return True
