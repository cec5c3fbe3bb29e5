"""Chains of reads, each at a place that the one before it decides."""

from itertools import pairwise

import pytest
from bascule.dialect.analysis.bodies.dependent_reads import SEARCH, longest_chain
from bascule.dialect.analysis.bodies.nested_loops import inner_loops

from tests.dialect.analysis.small_kernels import load, loop

BUFFERS = {"m": "memref<13xindex>", "n": "memref<17xindex>", "x": "memref<31xf32>"}


def chain(length: int) -> str:
    """Reads %a1 at %i, %a2 at %a1, .."""
    names = ["i", *(f"a{n + 1}" for n in range(length))]
    return "".join(load(name, "m", before) for before, name in pairwise(names))


@pytest.mark.parametrize("length", [0, 1, SEARCH - 1, SEARCH, SEARCH + 1])
def test_each_read_at_what_the_one_before_it_read_adds_one(kernel, length):
    assert longest_chain(kernel(BUFFERS, {"i": "13"}, chain(length))) == length


def test_reads_side_by_side_are_as_long_as_the_longest(kernel):
    body = (
        chain(3)
        + load("b", "n", "i")
        + "\n      %at = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%a3, %b)"
        + load("c", "x", "at")
        + load("d", "x", "b")
    )
    assert longest_chain(kernel(BUFFERS, {"i": "13"}, body)) == 4


def test_what_was_read_before_a_loop_does_not_count_in_it(kernel):
    inside = load("b", "n", "a2") + load("c", "x", "b")
    op = kernel(BUFFERS, {"i": "13"}, chain(2) + loop("", "k", "7", inside))
    (inner,) = inner_loops(op)
    assert (longest_chain(op), longest_chain(inner)) == (4, 2)


def test_a_read_under_a_condition_follows_what_is_before_it(kernel):
    body = f"""{chain(2)}
      %in = arith.cmpi slt, %i, %a1 : index
      scf.if %in {{{load("b", "n", "a2")}{load("c", "x", "b")}
      }}"""
    assert longest_chain(kernel(BUFFERS, {"i": "13"}, body)) == 4


def test_what_a_loop_gives_begins_a_new_chain(kernel):
    sums = loop("s", "k", "7", load("b", "n", "a2") + load("c", "x", "b"), "%c")
    body = f"{chain(2)}{sums}\n      %d = arith.fptosi %s : f32 to i64\n      %e = arith.index_cast %d : i64 to index"
    assert longest_chain(kernel(BUFFERS, {"i": "13"}, body + load("f", "m", "e") + load("g", "m", "f"))) == 4
    assert longest_chain(kernel(BUFFERS, {"i": "13"}, body.replace(chain(2), chain(1)).replace("%a2", "%i"))) == 2


def test_what_a_loop_carries_as_far_as_data_says_begins_a_new_chain(kernel):
    walk = """
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %b = scf.for %p = %zero to %a2 step %one iter_args(%c = %i) -> index {
        scf.yield %p : index
      }"""
    assert longest_chain(kernel(BUFFERS, {"i": "13"}, chain(2) + walk + load("d", "n", "b"))) == 2
