"""`bascule report DIR`: a page of a dump, documents with their lines, and folders that are none."""

import json
from pathlib import Path

import pytest
import torch

import bascule
from bascule.report_page.documents import of_module, of_triton, of_wrapper
from bascule.report_page.dump import graphs_of
from bascule.tools.main import main


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    options = {"dump": str(folder), "cache": False, "on_error": "raise", "target": "interpret"}
    torch.compile(lambda x: x.exp().sum(-1), backend="bascule", options=options)(torch.randn(8, 16))  # the user's line
    return folder


LINE = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "# the user's line" in line)


def test_the_command_writes_a_page(dump, tmp_path, capsys):
    assert main(["report", str(dump), "-o", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_documents_of_each_stage_come_from_the_users_line(dump):
    pytest.importorskip("triton")
    (graph,) = graphs_of(dump)
    here = f"{__file__}:{LINE}"
    for document in graph["documents"]:
        lines = document.text.splitlines()
        found = [lines[number] for number, places in document.lines.items() if here in places]
        assert any("exp" in line for line in found), document.title
        assert all(0 <= number < len(lines) for number in document.lines)
    assert {"torch dialect", "program stage", "the module that runs"} < {d.title for d in graph["documents"]}
    assert any(d.title.endswith(".ttir") for d in graph["documents"])


def test_lines_of_a_module_are_those_of_its_ops():
    text = """
    func.func @main(%x: f32) -> f32 {
      %0 = math.exp %x : f32 loc("a.py":3:0)
      %1 = math.sin %0 : f32 loc(fused["aten.add"("a.py":4:0), "b.py":5:0])
      return %1 : f32 loc(unknown)
    }"""
    document = of_module("IR", text)
    lines = document.text.splitlines()
    named = {lines[number].strip(): places for number, places in document.lines.items()}
    assert named["%0 = math.exp %arg0 : f32"] == ["a.py:3"]
    assert named["%1 = math.sin %0 : f32"] == ["a.py:4", "b.py:5"]
    assert "loc(" not in document.text and "return %1 : f32" not in named


def test_lines_of_other_texts():
    triton = (
        '#loc1 = loc("a.py":3:1)\ntt.func @f() {\n  %0 = math.exp %x loc(#loc2)\n}\n#loc2 = loc("aten.exp"(#loc1))\n'
    )
    assert of_triton("f", triton).lines == {1: ["a.py:3"]}
    wrapper = "def call(args):\n    # aten.exp.default  /a b/m.py:12:0\n    exp_0(p)\n\n    del x\ncall.x = 1\n"
    assert of_wrapper("w", wrapper).lines == {n: ["/a b/m.py:12"] for n in (1, 2, 3, 4)}


def test_what_is_no_dump_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1
    assert "there is no dump of a graph" in capsys.readouterr().err


@pytest.mark.parametrize("text, told", [("{", "cannot be read"), (json.dumps({"schema": "x", "version": 9}), "is x 9")])
def test_a_manifest_of_another_kind_is_refused(tmp_path, capsys, text, told):
    (tmp_path / "graph0").mkdir()
    (tmp_path / "graph0" / "record.json").write_text("{}")
    (tmp_path / "graph0" / "manifest.json").write_text(text)
    assert main(["report", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert told in error and "manifest.json" in error


@pytest.mark.parametrize("function", [torch.nn.Identity(), lambda x: None, lambda x: 3, torch.nn.Sequential()])
def test_of_a_function_without_a_graph_there_is_no_page(tmp_path, function):
    path = tmp_path / "page.html"
    with pytest.raises(bascule.UserError, match=r"report: no graph of '.*' was compiled"):
        bascule.report(function, torch.ones(4), path=path)
    assert not path.exists()


def test_a_page_has_a_place_before_anything_is_compiled(tmp_path):
    def never(x):
        raise AssertionError("called")

    for path, told in ((tmp_path, "is a directory"), (tmp_path / "none" / "page.html", "there is no directory")):
        with pytest.raises(bascule.UserError, match=told):
            bascule.report(never, torch.ones(3), path=path)


def test_further_calls_are_tuples_of_arguments(tmp_path):
    x = torch.randn(3, 3)
    with pytest.raises(bascule.UserError, match="parameter 'calls': takes lists or tuples of arguments"):
        bascule.report(torch.sin, x, path=tmp_path / "page.html", calls=[x])


def test_code_in_a_file_whose_name_is_no_text(tmp_path):
    """Half a character, as Python reads a name that is not UTF-8; and what HTML would read as a tag."""
    names: dict = {}
    exec(compile("def f(x):\n    return x.sin() + 1  # </script>\n", f"{tmp_path}/<b>&\udcff.py", "exec"), names)
    options = {"on_error": "raise"}
    told = bascule.explain(names["f"], torch.ones(4), options=options)
    assert told.graphs[0].fallback is None and "\udcff" not in str(told)
    page = bascule.report(names["f"], torch.ones(4), path=tmp_path / "page.html", options=options)
    assert "</script><" not in page.read_text().replace("</script>\n", "") and page.read_text().count("<b>") == 0
    assert bascule.bisect(names["f"], [torch.ones(4)]).wrong is None
