"""`bascule-lsp` as an editor sees it, over its standard input and output."""

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.language_server.client import Client, talking

TESTS = Path(__file__).parents[2] / "lit_tests"

GOOD = """// RUN: bascule-opt %s --form-kernels{run}
#map = affine_map<() -> (1024, 4096)>
func.func @main(%x: tensor<1024x4096xf32>) -> (tensor<1024x4096xf32>, tensor<4096xf32>) attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<1024x4096xf32>
    %f = math.exp %e : f32
    "bascule.yield"(%f) : (f32) -> ()
  }) {ranges = #map} : () -> tensor<1024x4096xf32>
  %z = "bascule.compute"() ({
  ^bb0(%j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%i: index):
      %e = tensor.extract %y[%i, %j] : tensor<1024x4096xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096)>} : () -> tensor<4096xf32>
  return %y, %z : tensor<1024x4096xf32>, tensor<4096xf32>
}
"""
# A pass of a user's that raises at the first kernel or compute, one that ends the process, and one that never ends.
PASSES = '''
import os
from dataclasses import dataclass

from bascule.dialect.passes import Pass
from bascule.dialect.remarks.attribute import add_remark


@dataclass(frozen=True)
class Raises(Pass):
    """Raises."""

    name = "raises"

    def run(self, module):
        op = module.body.operations[0].regions[0].blocks[0].operations[0]
        raise ValueError("nothing for me")


@dataclass(frozen=True)
class Dies(Pass):
    """Ends the process."""

    name = "dies"

    def run(self, module):
        os.abort()


@dataclass(frozen=True)
class Hangs(Pass):
    """Never ends, and prints."""

    name = "hangs"

    def run(self, module):
        print("what stands in nobody's way")
        while True:
            pass


@dataclass(frozen=True)
class Says(Pass):
    """Leaves a remark."""

    name = "says"

    def run(self, module):
        print("what stands in nobody's way")
        add_remark(module.body.operations[0].operation, "so there")
'''


def good(run: str = "") -> str:
    return GOOD.replace("{run}", run)


def place(text: str, part: str, number: int = 0) -> tuple[int, int]:
    """The line and character of the occurrence `number` of `part`."""
    at = -1
    for _ in range(number + 1):
        at = text.index(part, at + 1)
    return text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1


def spot(range_: dict) -> tuple[int, int, int, int]:
    return (*range_["start"].values(), *range_["end"].values())


def test_a_session(tmp_path):
    """Everything in one: what an editor asks for while a file is opened, broken, mended and closed."""
    text = good()
    with talking() as client:
        assert client.capabilities["serverInfo"] == {"name": "bascule-lsp", "version": version("bascule")}
        uri = client.open(tmp_path / "a file.mlir", text)
        assert client.diagnostics(uri, 1) == []

        where = client.at("definition", uri, *place(text, "%y[%i"))
        assert (where["uri"], spot(where["range"])[:2]) == (uri, place(text, "%y ="))
        told = client.at("hover", uri, *place(text, "bascule.reduce"))["contents"]["value"]
        assert told.startswith("### `bascule.reduce`") and "| `kind` | attribute |" in told

        (hint,) = client.hints(uri)
        line, _ = place(text, "%z =")
        assert hint["position"] == {"line": line, "character": len(text.splitlines()[line])}
        assert (
            "not fused" in hint["tooltip"]
            and "form-kernels" in hint["tooltip"]
            and hint["label"].startswith("not fused")
        )

        line, character = place(text, "%e : f32")
        change = {"start": {"line": line, "character": character}, "end": {"line": line, "character": character + 2}}
        client.change(uri, 2, {"range": change, "text": "%undefined"})
        (error,) = client.diagnostics(uri, 2)
        assert spot(error["range"]) == (line, character, line, character + len("%undefined"))
        assert (error["severity"], error["message"]) == (1, "use of undeclared SSA value name")
        assert client.hints(uri) == []

        client.change(uri, 3, {"text": text})
        assert client.diagnostics(uri, 3) == []
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert client.diagnostics(uri) == []
        assert client.leave() == 0


BROKEN = {
    "parser": ("%e : f32", "%e : f99", "f99", "expected non-function type"),
    "verifier of MLIR": ("%x[%i, %j]", "%x[%i]", "tensor.extract", "incorrect number of indices"),
    "verifier of ours": ('kind = "sum"', 'kind = "total"', '"bascule.reduce"', "total"),
    "contract": ("%y[%i, %j]", "%y[%big, %j]", "tensor.extract %y", "which has 1024 elements there"),
    "custom form": ('"bascule.reduce"()', "bascule.reduce()", "bascule.reduce()", "has no custom form"),
}


@pytest.fixture(scope="module")
def client():
    with talking() as client:
        yield client
        assert client.leave() == 0


@pytest.mark.parametrize("kind", BROKEN)
def test_errors_are_at_their_places(client, tmp_path, kind):
    old, new, at, message = BROKEN[kind]
    text = good().replace(old, new)
    text = text.replace("    %s =", "    %big = arith.constant 1024 : index\n    %s =")
    text = f"func.func private @other()\n// -----\n// \U0001f600 \n{text}"  # the second module of a file
    uri = client.open(tmp_path / "broken.mlir", text)
    error = client.diagnostics(uri, 1)[0]
    assert (error["severity"], spot(error["range"])[:2]) == (1, place(text, at)) and message in error["message"], error


def test_characters_before_a_place_are_counted_as_the_editor_does(tmp_path):
    text = 'func.func @f() attributes {a = "\U0001f600é"} { return %undefined : f32 }\n'
    for encodings, unit in ((None, 2), (["utf-8"], 1), (["utf-32", "utf-16"], 4)):
        name = {1: "utf-8", 2: "utf-16-le", 4: "utf-32-le"}[unit]
        with talking(encodings=encodings) as client:
            uri = client.open(tmp_path / "f.mlir", text)
            (error,) = client.diagnostics(uri, 1)
            assert error["range"]["start"] == {
                "line": 0,
                "character": len(text.partition("%u")[0].encode(name)) // unit,
            }


def test_of_edits_in_a_row_the_last_one_counts(client, tmp_path):
    uri = client.open(tmp_path / "typed.mlir", good())
    for number in range(2, 12):
        client.change(uri, number, {"text": good() + "}" * (number % 2)})
    client.change(uri, 12, {"text": good().replace("%e : f32", "%undefined : f32")})
    (error,) = client.diagnostics(uri, 12)
    assert spot(error["range"])[:2] == place(good(), "%e : f32")


@pytest.mark.parametrize(
    "part, told",
    [
        ("bascule.compute", "### `bascule.compute`"),
        ("--form-kernels", "### `form-kernels`"),
        ("bascule.graph", "bascule.graph"),
        ("tensor.extract", "of MLIR's dialect `tensor`"),
        ("#map}", "#map = affine_map<() -> (1024, 4096)>"),
        ("%y, %z", '%y = "bascule.compute"'),
        ("%j]", "^bb0(%i: index, %j: index):"),
    ],
)
def test_hovers(client, tmp_path, part, told):
    uri = client.open(tmp_path / "hovered.mlir", good())
    assert told in client.at("hover", uri, *place(good(), part))["contents"]["value"]


def test_every_operation_attribute_and_pass_of_the_reference_has_a_hover(client, tmp_path):
    reference = (TESTS.parent / "docs" / "dialect.md").read_text()
    entries = [line for line in reference.splitlines() if line.startswith("### `")]
    names = [line.split("`")[1] for line in entries]
    lines = [
        f'"{n}"()' if n.startswith("bascule.") else f"x {n}<>" if n[0] == "#" else f"// RUN: bascule-opt --{n}"
        for n in names
    ]
    uri = client.open(tmp_path / "all.mlir", "\n".join(lines))
    for number, (entry, name) in enumerate(zip(entries, names)):
        told = client.at("hover", uri, number, lines[number].index(name) + 1)
        assert told is not None and told["contents"]["value"].startswith(entry.partition(" (")[0]), name
    assert len(names) > 40


def test_there_is_nothing_to_say_of_a_bracket(client, tmp_path):
    uri = client.open(tmp_path / "nothing.mlir", good())
    assert client.at("hover", uri, *place(good(), "attributes")) is None
    assert client.at("definition", uri, *place(good(), "attributes")) is None


def test_without_a_run_line_the_default_passes_run(client, tmp_path):
    text = good().replace("// RUN: bascule-opt %s --form-kernels\n", "")
    uri = client.open(tmp_path / "default.mlir", text)
    hints = client.hints(uri)
    assert place(text, "%z =")[0] in {hint["position"]["line"] for hint in hints}
    assert {"form-kernels", "inline-producers"} & {hint["tooltip"].rpartition("[")[2].rstrip("]") for hint in hints}


def test_remarks_of_ir_that_has_locations_are_at_its_ops(client, tmp_path):
    text = good().replace("-> tensor<4096xf32>\n", '-> tensor<4096xf32> loc("aten.sum.default"(#where))\n')
    text = f'#where = loc("model.py":7:0)\n{text}'
    uri = client.open(tmp_path / "located.mlir", text)
    (hint,) = client.hints(uri)
    assert hint["position"]["line"] == place(text, "%z =")[0] and hint["tooltip"].startswith("aten.sum.default: ")


def test_a_pass_that_takes_no_such_ir_is_told_of(client, tmp_path):
    text = good(" --bufferize-kernels --schedule-kernels --bufferize-kernels")
    uri = client.open(tmp_path / "refused.mlir", text)
    assert client.diagnostics(uri, 1) == []
    assert client.hints(uri) == []
    (told,) = client.diagnostics(uri, 1)
    assert told["severity"] == 2 and "bufferize-kernels" in told["message"]


def test_a_pass_that_nobody_knows_is_told_of(client, tmp_path):
    uri = client.open(tmp_path / "unknown.mlir", good(" --form-kernel"))
    assert client.diagnostics(uri, 1) == []
    assert client.hints(uri) == []
    (told,) = client.diagnostics(uri, 1)
    assert (told["range"]["start"]["line"], told["severity"]) == (0, 2) and "did you mean --form-kernels" in told[
        "message"
    ]


def test_code_is_loaded_only_if_that_is_asked_for(client, tmp_path):
    (tmp_path / "passes_here.py").write_text(f"raise SystemExit({str(tmp_path)!r})")
    uri = client.open(tmp_path / "loads.mlir", good(" --load-pass=%S/passes_here.py:Says --says"))
    assert client.diagnostics(uri, 1) == []
    assert client.hints(uri) == []
    (told,) = client.diagnostics(uri, 1)
    assert told["severity"] == 3 and "--load" in told["message"]


def test_passes_that_fail_end_no_server(tmp_path):
    (tmp_path / "lit.cfg").write_text("")
    (tmp_path / "passes_here.py").write_text(PASSES)
    messages = {
        "raises": "ValueError: nothing for me",
        "dies": "ended the process (status -6): your pass 'dies'",
        "hangs": "takes more than 15 s: your pass 'hangs'",
    }
    with talking("--load", "--timeout=15", folder=tmp_path) as client:
        for name, message in messages.items():
            run = f" --load-pass=passes_here:{name.capitalize()} --{name}"
            uri = client.open(tmp_path / f"{name}.mlir", good(run))
            assert client.diagnostics(uri, 1) == []
            assert client.hints(uri) == []
            (told,) = client.diagnostics(uri, 1)
            assert message in told["message"], told
        uri = client.open(tmp_path / "says.mlir", good(" --load-pass=%tests/passes_here.py:Says --says"))
        assert client.diagnostics(uri, 1) == []
        assert "so there" in [hint["label"] for hint in client.hints(uri)]
        assert client.leave() == 0


def test_a_pass_that_never_ends_is_in_nobodys_way(tmp_path):
    (tmp_path / "passes_here.py").write_text(PASSES)
    with talking("--load", folder=tmp_path) as client:
        uri = client.open(tmp_path / "hangs.mlir", good(" --load-pass=passes_here.py:Hangs --hangs"))
        assert client.diagnostics(uri, 1) == []
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        client.send("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})
        time.sleep(5)  # now it runs
        for number in range(2, 20):
            client.change(uri, number, {"text": good().replace("%e : f32", f"%undefined{number} : f32")})
            client.send("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})
        assert len(client.diagnostics(uri, 19)) == 1
        assert client.at("hover", uri, *place(good(), "bascule.compute")) is not None
        assert client.at("definition", uri, *place(good(), "%y[%i")) is not None
        begin = time.monotonic()
        assert client.leave() == 0
        assert time.monotonic() - begin < 30


def test_damaged_files_end_no_server(client, tmp_path):
    damaged = ["", "\x00\x01", "(" * 5000, '"', "%", "#loc = loc(", "func.func @f(", good()[:400], "\ud83d", good() * 2]
    for number, text in enumerate(damaged):
        path = tmp_path / f"damaged{number}.mlir"
        path.write_text("")
        uri = path.as_uri()
        item = {"uri": uri, "languageId": "mlir", "version": 1, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": item})
        assert bool(client.diagnostics(uri, 1)) == bool(text), text
        client.at("hover", uri, 0, 0), client.at("definition", uri, 0, 0), client.hints(uri)


def test_the_status_tells_of_an_exit_without_a_shutdown():
    with talking() as client:
        client.notify("exit", None)
        assert client.process.wait(timeout=60) == 1


def test_it_ends_with_its_client():
    client = Client()
    client.process.stdin.close()
    assert client.process.wait(timeout=60) == 1


def test_without_pygls_it_names_the_extra():
    blocked = (
        "import sys; sys.modules['pygls'] = None; from bascule.language_server.command import main; sys.exit(main([]))"
    )
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "bascule-lsp: error: it needs pygls\n  hint: pip install 'bascule[lsp]'\n"
