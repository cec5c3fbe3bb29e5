"""`split-reductions` where one compute has several reductions."""

from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline


def _reduce(name: str, kind: str) -> str:
    return f"""
    %{name} = "bascule.reduce"() ({{
    ^bb0(%i: index):
      %e = tensor.extract %x[%i, %j] : tensor<65536x256xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }}) {{kind = "{kind}", ranges = affine_map<() -> (65536)>}} : () -> f32"""


# Sums of columns beside rows that are computed from what they read.
TEXT = f"""
func.func @main(%x: tensor<65536x256xf32>) -> (tensor<256xf32>, tensor<65536x256xf32>) attributes {{bascule.graph}} {{
  %0 = "bascule.compute"() ({{
  ^bb0(%j: index):{_reduce("s", "sum")}{_reduce("m", "max")}
    %d = arith.subf %s, %m : f32
    "bascule.yield"(%d) : (f32) -> ()
  }}) {{ranges = affine_map<() -> (256)>}} : () -> tensor<256xf32>
  %1 = "bascule.compute"() ({{
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<65536x256xf32>
    %v = math.exp %e : f32
    "bascule.yield"(%v) : (f32) -> ()
  }}) {{ranges = affine_map<() -> (65536, 256)>}} : () -> tensor<65536x256xf32>
  return %0, %1 : tensor<256xf32>, tensor<65536x256xf32>
}}
"""


def test_each_reduction_of_a_compute_is_split():
    with context():
        module = ir.Module.parse(TEXT)
        Pipeline.parse("split-reductions").run(module, verify=True)
        assert str(module).count("bascule.reduce") == 4  # of chunks, and of their results
