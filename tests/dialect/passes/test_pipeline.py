"""Pipelines: what parses, what is refused and where, and what runs in which order."""

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest
from bascule.dialect import passes
from bascule.dialect.errors import UserError
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir, passmanager
from bascule.dialect.passes import Pass, Pipeline
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True)
class Tag(Pass):
    """Takes any module; leaves it with the attribute `tag`."""

    name: ClassVar[str] = "tag"
    value: str = "x"
    times: int = 1
    loud: bool = False

    def run(self, module: ir.Module) -> None:
        text = self.value * self.times
        with module.context:
            module.operation.attributes["test.tag"] = ir.StringAttr.get(text.upper() if self.loud else text)


@pytest.fixture(autouse=True, scope="module")
def _tag():
    passes.add(Tag)


def run(text: str) -> str:
    with context():
        module = ir.Module.parse("func.func @f() { return }", ir.Context.current)
        Pipeline.parse(text).run(module)
        return module.operation.attributes["test.tag"].value


OTHERS = """
from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class Others(Pass):
    name: ClassVar[str] = "others"
    by: int = 1

    def run(self, module):
        i64 = ir.IntegerType.get_signless(64)
        module.operation.attributes["others.by"] = ir.IntegerAttr.get(i64, self.by)
"""


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module(canonicalize,tag{value=ab times=3},func.func(cse))",
        "builtin.module(tag)",
        "builtin.module(canonicalize{max-iterations=3},tag{loud=true})",
    ],
)
def test_spelling_round_trips(text):
    assert str(Pipeline.parse(text)) == text


@given(st.text("a ,=\\n'(){}[]-%é", max_size=8) | st.text('a ,="(){}', max_size=8))
def test_any_text_is_an_option_that_is_spelled_and_parsed_alike(value):
    """But for one that has quotes of both kinds."""
    pipeline = Pipeline((Tag(value=value, times=3), Tag(value="x")))
    assert Pipeline.parse(str(pipeline)) == pipeline


@pytest.mark.parametrize("around", ["'a b=c'", '"a b=c"', "{a b=c}"])
def test_what_is_around_a_value_is_no_part_of_it(around):
    """As MLIR takes the options of its own passes."""
    assert Pipeline.parse(f"tag{{value={around} times=2}}").stages == (Tag(value="a b=c", times=2),)


def test_options_reach_the_pass():
    assert run("canonicalize, tag{ value=ab  times=2 loud }") == "ABAB"
    assert run("tag{value=a},tag{value=b}") == "b"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("builtin.module(cse,nosuch)", 20, "'nosuch' is not a pass"),
        ("cse,tag{colour=red}", 5, "has no option 'colour'"),
        ("tag{times=many}", 1, "takes a value of type int, got 'many'"),
        ("cse,,tag", 5, "a pass name is missing"),
        ("cse,func.func(cse", 18, "ends inside a bracket"),
        ("cse),tag", 4, "unbalanced ')'"),
        ("func.func(nosuch)", 1, "does not parse"),
    ],
)
def test_refusals_name_the_column(text, column, message):
    with pytest.raises(UserError) as error:
        Pipeline.parse(text)
    assert error.value.location == f"pipeline:{column}"
    assert message in str(error.value)


def test_names_cannot_be_taken():
    class Taken(Pass):
        name = "form-kernels"

    with pytest.raises(UserError, match="exists already"):
        passes.add(Taken)
    with pytest.raises(UserError, match="'cse' exists already, of MLIR"):
        passes.add(type("OfMlir", (Tag,), {"name": "cse"}))
    with pytest.raises(UserError, match=r"'tag' exists already, of .*:Tag"):
        passes.add(type("OfAnother", (Tag,), {"name": "tag"}))
    passes.add(Tag)  # again, as when its module is loaded again
    for name in ("my pass", "", "-x", "a,b", "a(b)", "1"):
        with pytest.raises(UserError, match="is no name of a pass"):
            passes.add(type("Unnamed", (Tag,), {"name": name}))
    with pytest.raises(UserError, match="not a subclass"):
        passes.add(int)
    with pytest.raises(UserError, match="cannot load the pass"):
        passes.load("nothing.here:Pass")


def test_observers_see_every_stage():
    seen = []
    with context():
        module = ir.Module.parse("func.func @f() { return }")
        Pipeline.parse("tag,cse").run(module, observers=[lambda when, stage, _: seen.append((when, stage.name))])
    assert seen == [("before", "tag"), ("after", "tag"), ("before", "cse"), ("after", "cse")]


NESTED = "func.func(cse,canonicalize{max-iterations=2},scf.if(sccp,cse)),cse,func.func(sccp)"


def test_observers_see_each_pass_of_a_nested_pipeline():
    seen = []
    pipeline = Pipeline.parse(NESTED)
    with context():
        module = ir.Module.parse("func.func @f() { return }")
        pipeline.run(module, observers=[lambda when, stage, _: seen.append(stage.name) if when == "after" else None])
    assert seen == ["cse", "canonicalize", "sccp", "cse", "cse", "sccp"]
    assert [stage.spelling() for stage in pipeline.stages][2] == "func.func(scf.if(sccp))"


@pytest.mark.parametrize("text", [NESTED, "func.func(cse),func.func(cse)", "any(any(cse)),any(cse),cse,inline"])
def test_nested_pipelines_are_spelled_and_parsed_alike(text):
    pipeline = Pipeline.parse(text)
    assert Pipeline.parse(str(pipeline)) == pipeline
    with context():
        passmanager.PassManager.parse(str(pipeline))


def test_a_nested_pipeline_is_spelled_as_it_was():
    assert str(Pipeline.parse(NESTED)) == f"builtin.module({NESTED})"


def test_passes_of_an_installed_package_are_found_by_name(tmp_path):
    """As `pip` leaves it: a module and its metadata with entry points, of which one is broken."""
    (tmp_path / "others_passes.py").write_text(OTHERS)
    metadata = tmp_path / "others_passes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others-passes\nVersion: 1.0\n")
    entries = "[bascule.passes]\nothers = others_passes:Others\nbroken = others_passes:Missing\n"
    (metadata / "entry_points.txt").write_text(entries)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def opt(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "bascule.dialect.tools.opt", *arguments]
        return subprocess.run(
            command, input="module {}", capture_output=True, text=True, env=environment, timeout=100, check=False
        )

    assert "others.by = 3" in opt("--others=by=3").stdout
    assert "others.by = 4" in opt("--pass-pipeline=builtin.module(cse,others{by=4})").stdout
    broken = opt("--broken")
    assert broken.returncode == 1 and "cannot load the pass 'broken' from 'others_passes:Missing'" in broken.stderr
    listed = opt("--list-passes").stdout
    assert "--others" in listed and "cannot load the pass 'broken'" in listed and "--form-kernels" in listed
