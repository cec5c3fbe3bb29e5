"""The dim in which memory runs."""

import pytest
from bascule.dialect.analysis.affine.fastest_dim import fastest_dim
from bascule.dialect.mlir import ir


@pytest.mark.parametrize(
    ("type_", "dim"),
    [
        ("tensor<4x8x1xf32>", 1),
        ("tensor<1x1xf32>", None),
        ("tensor<4x8xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 4)>>>", 0),
        ("tensor<4x8xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 16 + d1 * 2)>>>", None),
        ("tensor<?x?xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>>", 1),
    ],
)
def test_it_has_steps_of_one(type_, dim):
    assert fastest_dim(ir.Type.parse(type_)) == dim
