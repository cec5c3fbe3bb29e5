"""MLIR's folders leave alone what an assertion looks at: a checked clamp of a constant, and the order of what it compares."""

import pytest
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.pipeline import Pipeline

CLAMP = """
func.func @main(%size: index) -> index attributes {{bascule.graph}} {{
  %zero = arith.constant 0 : index
  %index = arith.constant {index} : index
  %last = {last}
  %up = arith.maxsi %index, %zero : index
  %place = arith.minsi %up, %last {mark} : index
  return %place : index
}}
"""
FOUR, UNKNOWN = "arith.constant 4 : index", "arith.subi %size, %zero : index"
CHECKED = "{bascule.checked}"


def canonical(index: int, last: str, mark: str = CHECKED) -> str:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(CLAMP.format(index=index, last=last, mark=mark))
        manager = Pipeline.parse("canonicalize").stages[0]
        manager.run(module)
        return str(module)


@pytest.mark.parametrize("index", [5, -1])
def test_a_constant_out_of_range_stays_checked(index):
    text = canonical(index, FOUR)
    assert "arith.minsi" in text and "bascule.checked" in text and "cast" not in text


def test_a_constant_in_range_is_the_constant():
    text = canonical(3, FOUR)
    assert "arith.minsi" not in text and "arith.constant 3" in text


def test_a_constant_comes_first_where_it_is_the_index():
    assert "arith.minsi %c3, %arg0 {bascule.checked}" in canonical(3, UNKNOWN).replace("%up", "%c3")


def test_what_is_not_checked_folds():
    assert "arith.minsi" not in canonical(5, FOUR, mark="")
