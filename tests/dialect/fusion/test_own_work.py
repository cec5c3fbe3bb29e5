"""Work that the points of a row share, and work of each point."""

import pytest
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.fusion.own_work import own_work
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir

ROWS, COLUMNS = 10, 1000
EXP, ADD = 20, 1


def work(lines, read=lambda tensor: 0.0):
    text = f"""
    func.func @f(%x: tensor<{ROWS}xf32>, %y: tensor<{COLUMNS}xf32>, %z: tensor<{ROWS}x{COLUMNS}xf32>) -> tensor<{ROWS}x{COLUMNS}xf32> {{
      %0 = "bascule.compute"() ({{
      ^bb0(%i: index, %j: index):
        %a = tensor.extract %x[%i] : tensor<{ROWS}xf32>
        %b = tensor.extract %y[%j] : tensor<{COLUMNS}xf32>
        %c = tensor.extract %z[%i, %j] : tensor<{ROWS}x{COLUMNS}xf32>
        {lines}
        "bascule.yield"(%r) : (f32) -> ()
      }}) {{ranges = affine_map<() -> ({ROWS}, {COLUMNS})>}} : () -> tensor<{ROWS}x{COLUMNS}xf32>
      return %0 : tensor<{ROWS}x{COLUMNS}xf32>
    }}"""
    with context():
        module = ir.Module.parse(text)
        (compute, _) = module.body.operations[0].regions[0].blocks[0].operations
        return own_work(Body(compute.operation), read)


@pytest.mark.parametrize(
    ("value", "counted"),
    [
        ("%a", EXP / COLUMNS),  # once a row
        ("%b", EXP),  # of a column alone: other rows do it again
        ("%c", EXP),
    ],
)
def test_what_a_row_shares(value, counted):
    assert work(f"%e = math.exp {value} : f32\n%r = arith.addf %e, %c : f32") == pytest.approx(counted + ADD)


def test_what_is_read_counts_where_it_is_read():
    reads = lambda tensor: 7.0 if tensor.type.rank == 1 else 0.0  # noqa: E731
    assert work("%r = arith.addf %a, %c : f32", reads) == pytest.approx(7 / COLUMNS + 7 + ADD)


def test_a_branch_depends_on_what_it_yields():
    lines = """%t = arith.cmpf olt, %a, %a : f32
        %u = scf.if %t -> (f32) { scf.yield %c : f32 } else { scf.yield %a : f32 }
        %r = math.exp %u : f32"""
    assert work(lines) == pytest.approx(EXP + ADD / COLUMNS)
