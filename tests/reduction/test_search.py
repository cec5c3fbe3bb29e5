"""A reduced module and its passes: the part that fails is left, and each module on the way verifies."""

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir

from bascule.pipelines import DEFAULT, STAGES
from bascule.reduction.edits import EDITS, smaller_sizes
from bascule.reduction.search import Search, count_sites, edited, operations, valid
from bascule.tools.checking import after
from tests.tools.graphs import block, imported

STAGE_PASSES = {stage: DEFAULT[: DEFAULT.index(last) + 1] if last else () for stage, last in STAGES.items()}


@pytest.fixture(scope="module")
def stages():
    module = block()
    return {stage: str(after(module, ",".join(passes))) for stage, passes in STAGE_PASSES.items()}


def reduced(text, fails, passes=()):
    seen = []

    def test(text, passes):
        seen.append(text)
        return fails(text, passes)

    search = Search(text, passes, test)
    search.reduce()
    assert all(valid(text) == text for text in seen)
    assert search.tests == len(seen)
    return search


@pytest.mark.parametrize(
    "stage, needle", [("torch", "aten.gelu"), ("tensor", "math.erf"), ("kernel", "math.erf"), ("program", "math.erf")]
)
def test_what_is_left_is_what_fails(stages, stage, needle):
    search = reduced(stages[stage], lambda text, passes: needle in text)
    assert operations(search.text) <= 16 < operations(stages[stage])
    assert needle in search.text


def test_passes_that_the_failure_does_not_need_go(stages):
    passes = tuple("abcdefgh")
    search = reduced(stages["tensor"], lambda text, passes: {"b", "g"} <= {*passes} and passes.index("b") < 3, passes)
    assert search.passes == ("b", "g")


def test_sizes_go_with_their_multiples():
    text = str(after(imported(lambda x: x.t().exp(), torch.ones(16, 48)), "torch-to-bascule"))
    search = reduced(text, lambda text, passes: "math.exp" in text)
    assert "48" not in search.text and "tensor<1x1xf32" in search.text


def test_dynamic_sizes_stay_valid():
    text = """
    !row = tensor<?x3xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 3 + d1)>>>
    func.func @main(%n: index, %x: !row {bascule.shape = affine_map<()[s0] -> (s0, 3)>}) -> (!row, !row)
        attributes {bascule.graph, bascule.shapes = [affine_map<()[s0] -> (s0, 3)>, affine_map<()[s0] -> (s0, 3)>]} {
      %0 = "bascule.compute"() ({
      ^bb0(%i: index, %j: index):
        %e = tensor.extract %x[%i, %j] : !row
        %f = math.exp %e : f32
        "bascule.yield"(%f) : (f32) -> ()
      }) {ranges = affine_map<()[s0] -> (s0, 3)>} : () -> !row
      %1 = "bascule.compute"() ({
      ^bb0(%i: index, %j: index):
        %e = tensor.extract %0[%i, %j] : !row
        %f = math.log %e : f32
        "bascule.yield"(%f) : (f32) -> ()
      }) {ranges = affine_map<()[s0] -> (s0, 3)>} : () -> !row
      return %0, %1 : !row, !row
    }"""
    search = reduced(valid(text), lambda text, passes: "math.log" in text and "tensor.extract" in text)
    assert "math.exp" not in search.text and "bascule.shape = " in search.text


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
@pytest.mark.parametrize("stage", STAGES)
def test_an_edit_leaves_a_valid_module_or_none(stages, stage, edit):
    text = stages[stage]
    count = count_sites(edit, text)
    for part in (range(count), *(range(n, n + 1) for n in range(0, count, 5))):
        if len(part):
            left = edited(edit, text, part)
            assert left is None or left == valid(left)


def test_a_size_is_no_part_of_a_name_or_of_a_number_with_a_point():
    text = "%8 = f(@g8, 8.0, #map8) : tensor<8x16xf8> loc(8)"
    changes = [change(text) for change in smaller_sizes(text)]
    assert "%8 = f(@g8, 8.0, #map8) : tensor<1x2xf8> loc(1)" in changes
    assert "%8 = f(@g8, 8.0, #map8) : tensor<1x16xf8> loc(1)" in changes


def test_what_does_not_verify_is_no_module():
    assert valid("func.func @f() -> i32 {\n  return\n}") is None
    assert (
        valid(
            "func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> attributes {bascule.graph} {\n  return %x : tensor<?xf32>\n}"
        )
        is None
    )
    with context():
        assert valid("module {\n}\n") == str(ir.Module.parse("module {}"))
