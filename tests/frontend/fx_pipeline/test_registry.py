"""The table of FX passes: names, functions, lists, tests."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bascule.dialect.passes import names as mlir_names
from bascule.frontend.fx_pipeline.listing import fx_passes
from bascule.frontend.fx_pipeline.registry import NEEDS, PASSES, STAGES, find, passes_at

from bascule.errors import UserError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("each", PASSES.values(), ids=PASSES)
def test_a_pass_is_told_of_in_full(each):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", each.name)
    assert each.stages and {*each.stages} <= {*STAGES} and {*each.needs} <= {*NEEDS}
    first, *others = inspect.signature(each.function).parameters.values()
    assert each.on_module == (first.name == "gm") and all(other.default is not other.empty for other in others)
    assert each.summary().endswith(".") and "\n" not in each.summary()


def test_names_are_not_those_of_mlir_passes():
    assert not {*PASSES} & {*mlir_names(), "cse", "canonicalize"}


def test_stages_have_passes_in_the_order_of_the_table():
    assert [each.name for each in passes_at("joint")] == [
        *("keep-effects-in-forward", "drop-copies", "drop-unused-operands", "expand-repeats", "open-batch-norms"),
        *(
            "merge-equal-nodes",
            "part-batch-sums",
            "open-attentions",
            "open-drawing-attentions",
            "peel-biases",
            "multiply-tiles",
            "pad-products",
            "gather-permuted-rows",
            "drop-known-masks",
            "narrow-sorts",
            "narrow-pooling-indices",
            "recompute-activation-masks",
        ),
        *(
            "save-extremes",
            "save-seen-calls",
            "seed-dropouts",
            "save-attention-statistics",
            "mark-data-dependent-operators",
        ),
    ]
    assert [each.name for each in passes_at("final")] == ["peel-biases", "multiply-tiles", "pad-products"]
    assert {each.name for stage in STAGES for each in passes_at(stage)} == {*PASSES}


@pytest.mark.parametrize("each", PASSES.values(), ids=PASSES)
def test_the_file_of_a_pass_has_a_test_of_its_name(each):
    folder, file = each.place.partition(":")[0].split(".")
    text = (ROOT / "tests" / "frontend" / folder / f"test_{file}.py").read_text()
    assert re.search(r"^def test_", text, re.MULTILINE)


def test_an_unknown_name_is_told_its_like():
    with pytest.raises(UserError, match=r"there is no FX pass 'pad-product' .did you mean 'pad-products'") as error:
        find("pad-product")
    assert all(name in error.value.hint for name in PASSES)


def test_the_list_has_all_of_them():
    lines = [*fx_passes()]
    assert [line.split()[0] for line in lines[1:] if re.match(r"  \S", line)] == [*PASSES]
    assert all(len(line) <= 120 for text in lines for line in text.splitlines())


def test_the_table_imports_neither_pytorch_nor_a_pass():
    code = """
import sys
from bascule.frontend.fx_pipeline import registry
assert "torch" not in sys.modules
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.partitioner import min_cut
loaded = [p.name for p in registry.PASSES.values() if f"bascule.frontend.{p.place.split(':')[0]}" in sys.modules]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
