"""Whether neighbours along memory are read at places that data says."""

import pytest
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.gather_reads import gathers
from bascule.dialect.ir.regions import ops_in

from tests.dialect.small_kernels import extract, mlir, parse, ranges, reduce

__all__ = ["mlir"]

X, N = "tensor<31x17xf32>", "tensor<31xindex>"
ROWS = "tensor<7x17xf32>"  # neighbours are along j
COLUMNS = "tensor<7x17xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 7)>>>"  # along i


def is_gather(body: str, result: str = ROWS, sizes: str = "7, 17") -> bool:
    """Of a compute of %a, which `body` makes at %i, %j; %x is 31x17, and %n has 31 indices."""
    module = parse(f"""func.func @main(%x: {X}, %n: {N}) {{
      %y = "bascule.compute"() ({{
      ^bb0(%i: index, %j: index):
        %zero = arith.constant 0 : index
        {body}
        "bascule.yield"(%a) : (f32) -> ()
      }}) {{{ranges(sizes)}}} : () -> {result}
      return
    }}""")
    (made,) = (op for op in ops_in(module.operation) if op.name == "bascule.compute")
    return gathers(Body(made))


def at(index: str) -> str:
    """A row that %n has at `index`, read at %zero."""
    return f"{extract('%r', '%n', index, N)}\n{extract('%a', '%x', '%r, %zero', X)}"


@pytest.mark.parametrize(
    ("index", "result", "expected"),
    [("%j", ROWS, True), ("%i", ROWS, False), ("%j", COLUMNS, False), ("%i", COLUMNS, True), ("%zero", ROWS, False)],
)
def test_data_that_differs_between_neighbours_in_memory(index, result, expected):
    assert is_gather(at(index), result) == expected


def test_neighbours_along_a_dim_of_one_element_are_along_another():
    assert is_gather(at("%i"), "tensor<7x1xf32>", "7, 1")
    assert not is_gather(at("%j"), "tensor<7x1xf32>", "7, 1")
    assert not is_gather(at("%i"), "tensor<1x1xf32>", "1, 1")


def test_what_is_not_read_at_data_is_no_gather():
    assert not is_gather(extract("%a", "%x", "%i, %j", X))
    assert not is_gather("%a = arith.constant 1.0 : f32")


def test_neighbours_at_one_distance_from_data_are_no_gather():
    moved = "%q = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%r, %j)\n" + extract("%a", "%x", "%q, %zero", X)
    assert not is_gather(f"{extract('%r', '%n', '%i', N)}\n{moved}")
    assert is_gather(f"{extract('%r', '%n', '%j', N)}\n{moved}")


def test_data_of_a_condition_says_the_place():
    chosen = "%in = arith.cmpi slt, %r, %i : index\n%q = arith.select %in, %zero, %i : index\n"
    chosen += extract("%a", "%x", "%q, %j", X)
    assert is_gather(f"{extract('%r', '%n', '%j', N)}\n{chosen}")
    assert not is_gather(f"{extract('%r', '%n', '%i', N)}\n{chosen}")


def test_data_at_the_index_of_a_loop_inside_is_the_same_for_neighbours():
    def summed(index: str) -> str:
        return reduce("%a", "%k", "13", at(index).replace("%a", "%b"), "%b")

    assert not is_gather(summed("%k"))
    assert is_gather(summed("%j"))
