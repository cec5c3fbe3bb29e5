"""Programs that random search or the operator database found: each of them was wrong once."""

import pytest

from tests.properties.test_passes import STAGES, compare_after

# Two independent loops of one kernel, one of which writes the argument that the other reads.
WRITTEN_BY_A_SIBLING = """
func.func @main(%x: tensor<f32>) -> tensor<f32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
    %e = tensor.extract %x[] : tensor<f32>
    %f = arith.addf %e, %e : f32
    "bascule.yield"(%f) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %1 = "bascule.compute"() ({
    %e = tensor.extract %x[] : tensor<f32>
    %f = math.sin %e : f32
    "bascule.yield"(%f) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  "bascule.copy_into"(%0, %x) : (tensor<f32>, tensor<f32>) -> ()
  return %1 : tensor<f32>
}"""

# All points store to one place: the last one wins.
ONE_PLACE = """
func.func @main(%x: tensor<1x40xi64>, %init: tensor<1x1xi64>) -> tensor<1x1xi64> attributes {bascule.graph} {
  %0 = "bascule.scatter"(%init) ({
  ^bb0(%i: index, %j: index, %k: index, %out: tensor<1x1xi64>):
    %e = tensor.extract %x[%i, %j] : tensor<1x40xi64>
    %zero = arith.constant 0 : index
    "bascule.store"(%e, %out, %zero, %k) : (i64, tensor<1x1xi64>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1, 40, 1)>} : (tensor<1x1xi64>) -> tensor<1x1xi64>
  return %0 : tensor<1x1xi64>
}"""

# Equal small loops, which share code, beside another loop that reads the same tensors.
EQUAL_LOOPS = """
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>, %x: tensor<3x2x4xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<3x2x4xf32>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %a[%i] : tensor<2xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (2)>} : () -> tensor<2xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %b[%i] : tensor<2xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (2)>} : () -> tensor<2xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %e = tensor.extract %x[%i, %j, %k] : tensor<3x2x4xf32>
    %f = tensor.extract %a[%j] : tensor<2xf32>
    %g = tensor.extract %b[%j] : tensor<2xf32>
    %h = arith.subf %e, %f : f32
    %r = arith.mulf %h, %g : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (3, 2, 4)>} : () -> tensor<3x2x4xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<3x2x4xf32>
}"""

# Numbers that are only moved, of a type without arithmetic.
COMPLEX_COPY = """
func.func @main(%x: tensor<5x3xcomplex<f32>>) -> tensor<3x5xcomplex<f32>> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j, %i] : tensor<5x3xcomplex<f32>>
    "bascule.yield"(%e) : (complex<f32>) -> ()
  }) {ranges = affine_map<() -> (3, 5)>} : () -> tensor<3x5xcomplex<f32>>
  return %0 : tensor<3x5xcomplex<f32>>
}"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WRITTEN_BY_A_SIBLING, id="written by a sibling"),
        pytest.param(ONE_PLACE, id="one place"),
        pytest.param(EQUAL_LOOPS, id="equal loops"),
        pytest.param(COMPLEX_COPY, id="complex copy"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_found(text, compiled):
    compare_after(text, 0, [], list(STAGES), compiled=compiled)
