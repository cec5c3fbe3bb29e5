"""How values and addresses depend on the indices of loops."""

from collections.abc import Callable

import pytest
from bascule.dialect.analysis.bodies.body_summary import Body, decode
from bascule.dialect.analysis.bodies.body_tree import ZERO, Node

from tests.dialect.analysis.small_kernels import load, loop, store

BUFFERS = {"x": "memref<4x8xf32>", "m": "memref<32xf32>", "d": "memref<?x?xf32>", "y": "memref<4xf32>"}


@pytest.fixture
def decoded(kernel) -> Callable[..., Body]:
    return lambda body, ranges=None: decode(kernel(BUFFERS, ranges or {"i": "4", "j": "8"}, body))


def named(body: Body, name: str) -> list[Node]:
    return [node for node in body.block.walk() if node.name == name]


def test_an_address_is_linear_in_the_indices_of_its_applies(decoded):
    body = decoded(
        "\n    %at = affine.apply affine_map<(d0, d1) -> (d0 * 8 - d1 + 7)>(%i, %j)"
        + load("a", "m", "at")
        + store("a", "y", "i")
    )
    i, j = body.root.indices
    (read,), (stored,) = named(body, "memref.load"), named(body, "bascule.store")
    assert read.address == {i: 8, j: -1}
    assert stored.address == {i: 1}
    assert body.dependence[read.results[0]] == {i: None, j: None}
    assert body.opaque == set()


def test_an_index_under_a_quotient_is_not(decoded):
    body = decoded(
        "\n    %at = affine.apply affine_map<(d0, d1) -> (d0 + d1 floordiv 4)>(%i, %j)" + load("a", "m", "at")
    )
    i, j = body.root.indices
    assert named(body, "memref.load")[0].address == {i: 1, j: None}
    assert body.opaque == {j}


def test_a_quotient_and_its_remainder_meet(decoded):
    body = decoded(
        """
    %q = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%i)
    %r = affine.apply affine_map<(d0) -> (d0 mod 8)>(%i)"""
        + load("a", "x", "q", "r")
        + load("b", "x", "r", "q"),
        {"i": "32"},
    )
    (i,) = body.root.indices
    together, apart = named(body, "memref.load")
    assert (together.operands[1:], together.address) == ([ZERO, i], {i: 1})
    assert (ZERO not in apart.operands, apart.address) == (True, {i: None})


def test_a_step_of_symbols_is_no_number(decoded):
    body = decoded(
        "\n    %at = affine.apply affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>(%i, %j)[%s0]" + load("a", "m", "at")
    )
    i, j = body.root.indices
    assert named(body, "memref.load")[0].address == {i: None, j: 1}


def test_what_a_loop_gives_depends_on_no_index_of_its_own(decoded):
    body = decoded(loop("s", "k", "8", load("a", "x", "i", "k"), "%a"))
    i, _ = body.root.indices
    (reduce,) = body.loops
    assert body.dependence[reduce.results[0]] == {i: None}
    assert body.dependence[reduce.indices[0]] == {reduce.indices[0]: 1}


def test_what_a_loop_from_data_carries_depends_on_how_often_it_runs(decoded):
    body = decoded("""
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %start = arith.constant 1.0 : f32
    %f = scf.for %n = %zero to %j step %one iter_args(%c = %start) -> f32 {
      %next = arith.addf %c, %c : f32
      scf.yield %next : f32
    }""")
    _, j = body.root.indices
    (made,) = named(body, "scf.for")
    assert body.dependence[made.results[0]] == {j: None}
