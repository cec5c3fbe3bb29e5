"""The option `replay`: a model runs from the files of a dump that were edited, and an edit that its caller cannot take is refused."""

import re
from pathlib import Path

import pytest
import torch

from bascule.errors import UserError
from bascule.options import Options
from bascule.pipelines import default_for
from bascule.replay.edits import edits_of

STRICT = {"on_error": "raise", "fallback": "error"}


class Model(torch.nn.Module):
    """A constant that stands at every stage: 0.3125, which neither the backward nor a schedule has otherwise."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x):
        return torch.tanh(self.linear(x)) * 0.3125


def step(model, x, **options):
    """A training step: the result and the gradients."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="bascule", options={**STRICT, **options})
    model.zero_grad()
    y = compiled(x)
    y.backward(torch.ones_like(y))
    return y.detach(), [p.grad.clone() for p in model.parameters()]


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """A model, its input, the dump of a training step, and what it gave."""
    torch.manual_seed(0)
    model, x, folder = Model(), torch.randn(4, 6), tmp_path_factory.mktemp("dump")
    return model, x, folder, step(model, x, dump=str(folder))


@pytest.fixture
def edit(dumped):
    """A function that changes the text of the file that a pass left of a direction; afterwards all files are as they were."""
    changed = {}

    def edited(direction, left_by, *replacements):
        (path,) = dumped[2].glob(f"*_{direction}/*{left_by}*")
        changed.setdefault(path, path.read_text())
        text = path.read_text()
        for pattern, replacement in replacements:
            text, count = re.subn(pattern, replacement, text)
            assert count, f"nothing in {path} is {pattern}"
        path.write_text(text)
        return path

    yield edited
    for path, text in changed.items():
        path.write_text(text)


def test_a_dump_without_edits_replays_to_the_same(dumped):
    model, x, folder, (y, grads) = dumped
    again, again_grads = step(model, x, replay=str(folder))
    assert torch.equal(y, again) and all(map(torch.equal, grads, again_grads))


@pytest.mark.parametrize(
    "left_by", ["00-import", "torch-to-bascule", "form-kernels", "schedule-kernels", "plan-memory"]
)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_training_step_runs_from_an_edited_file(dumped, edit, tmp_path, left_by, direction):
    model, x, folder, (y, grads) = dumped
    edit(direction, left_by, (r"3\.125000e-01", "6.250000e-01"))
    again, again_grads = step(model, x, replay=str(folder), dump=str(tmp_path / "again"))
    forward, backward = (2, 1) if direction == "forward" else (1, 2)
    torch.testing.assert_close(again, forward * y)
    torch.testing.assert_close(again_grads, [backward * grad for grad in grads])
    text = next((tmp_path / "again").glob(f"*_{direction}/*-plan-memory.mlir")).read_text()
    assert "6.250000e-01" in text  # a dump of it has the edit, and what followed from it


def test_a_wrapper_that_was_edited_runs(dumped, edit):
    model, x, folder, (y, _) = dumped
    path = edit("forward", "wrapper.py", (r"(\n    return )\((\w+)", r"\n    \2 = \2 + 1\1(\2"))
    again, _ = step(model, x, replay=str(folder))
    torch.testing.assert_close(again, y + 1)
    assert "+ 1" in path.read_text()


def test_a_kernel_of_triton_that_was_edited_runs(tmp_path):
    def f(x):
        return torch.exp(x) * 0.3125

    x, options = torch.randn(40), {"target": "interpret", **STRICT}
    torch._dynamo.reset()
    y = torch.compile(f, backend="bascule", options={**options, "dump": str(tmp_path)})(x)
    (path,) = tmp_path.glob("*/*.ttir")
    path.write_text(path.read_text().replace("3.125000e-01", "6.250000e-01"))
    torch._dynamo.reset()
    torch.testing.assert_close(
        torch.compile(f, backend="bascule", options={**options, "replay": str(tmp_path)})(x), 2 * y
    )


# What may not change, by a pass that left the file, an edit of it, and what the error tells.
RESULT, GRAPH = r"return (%\w+), ", r"(func\.func @main\(.*)"
BROKEN = {
    "a result's dtype": (
        "torch-to-bascule",
        [(r"(?s)return (%\w+)(.*?) : tensor<4x5xf32>",
          r"%z = arith.truncf \1 : tensor<4x5xf32> to tensor<4x5xf16>\n    return %z\2 : tensor<4x5xf16>"),
         (r"-> \(tensor<4x5xf32>", "-> (tensor<4x5xf16>")],
        "result 0 is tensor<4x5xf16>, and was tensor<4x5xf32>",
    ),
    "one result less": (
        "torch-to-bascule",
        [(r"return (%\w+), %\w+", r"return \1"), (r": tensor<4x5xf32>, tensor<[^>]*>", ": tensor<4x5xf32>"),
         (r"-> \(tensor<4x5xf32>, tensor<[^>]*>", "-> (tensor<4x5xf32>")],
        "is not there, and was tensor<",
    ),
    "an argument more": (
        "plan-memory",
        [(r"(func\.func @main\(.*?)\) -> ", r"\1, %more: memref<3xf32>) -> ")],
        "argument 3 is memref<3xf32>, and was not there",
    ),
    "a result in an argument's memory": (
        "plan-memory",
        [(r"return (%\w+), (%\w+)", r"return %arg2, \2"), (r"return (.*) : memref<4x5xf32>", r"return \1 : memref<4x6xf32>"),
         (r"-> \(memref<4x5xf32>", "-> (memref<4x6xf32>")],
        "result 0  is in the memory of argument",
    ),
    "an argument that is written": (
        "plan-memory",
        [(r"(\n *return %alloc)", r"\n    memref.copy %arg1, %arg1 : memref<5xf32> to memref<5xf32>\1")],
        "argument 1 is written, and was not written",
    ),
    "an attribute": ("plan-memory", [(r"bascule\.inputs = \[(.*?), (.*?)\]", r"bascule.inputs = [\2, \1]")], "attribute bascule.inputs is"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_an_edit_of_what_callers_rely_on_is_refused(dumped, edit, what):
    model, x, folder, _ = dumped
    left_by, replacements, message = BROKEN[what]
    path = edit("forward", left_by, *replacements)
    with pytest.raises(UserError) as caught:
        step(model, x, replay=str(folder))
    text = str(caught.value)
    assert message in text and "relies on" in text and text.startswith(str(path))


def test_an_edit_that_does_not_parse_or_verify_has_a_place(dumped, edit):
    model, x, folder, _ = dumped
    path = edit("forward", "plan-memory", (r"3\.125000e-01 : f32", "3.125000e-01 : i32"))
    with pytest.raises(UserError, match="the edited IR is not valid") as caught:
        step(model, x, replay=str(folder))
    assert re.search(rf'{re.escape(str(path))}"?:\d+:\d+', str(caught.value))


def test_a_pass_that_fails_on_an_edit_says_so(dumped, edit):
    model, x, folder, _ = dumped
    edit("forward", "order-program", (r"bascule\.store", "bascule.stored"))
    with pytest.raises(UserError, match=r"order-program\.mlir"):
        step(model, x, replay=str(folder))


def test_two_stages_that_were_edited_are_refused(dumped, edit):
    model, x, folder, _ = dumped
    edit("forward", "torch-to-bascule", ("3.125000e-01", "1.000000e-01"))
    edit("forward", "wrapper.py", (r"\Z", "\n"))
    with pytest.raises(
        UserError, match=r"several stages of one graph were edited: 01-torch-to-bascule.mlir, wrapper.py"
    ):
        step(model, x, replay=str(folder))


def test_another_program_is_refused(dumped):
    folder = dumped[2]
    with pytest.raises(UserError, match=r"no graph in .* the program, its inputs or the options are others"):
        step(dumped[0], torch.randn(3, 6), replay=str(folder))


def test_other_passes_are_refused(dumped, edit):
    model, x, folder, _ = dumped
    number = default_for(Options(), "cpu").index("form-kernels") + 2
    edit("forward", f"{number}-drop-roundings", ("3.125000e-01", "1.000000e-01"))
    with pytest.raises(
        UserError, match=r"was left by the passes torch-to-bascule,.* replay with the options of the dump"
    ):
        names = "torch-to-bascule,form-kernels,isolate-kernels,schedule-kernels,bufferize-kernels,plan-memory"
        try:
            step(model, x, replay=str(folder), pipeline=names)
        except UserError as error:
            raise UserError(" ".join(str(error).split())) from None


def test_what_is_no_dump_is_refused_at_once(tmp_path, dumped):
    with pytest.raises(UserError, match="there is no dump in"):
        step(dumped[0], dumped[1], replay=str(tmp_path))
    with pytest.raises(UserError, match="cannot be the directory of 'dump'"):
        step(dumped[0], dumped[1], replay=str(dumped[2]), dump=f"{dumped[2]}/.")


def test_an_edited_wrapper_of_a_split_graph_is_refused(tmp_path):
    def f(x):
        return torch.nonzero(x.sin() > 0) + 1

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        options = {"on_error": "raise", "dump": str(tmp_path)}
        torch.compile(f, backend="bascule", options=options)(torch.randn(5))
        (path,) = [p for p in tmp_path.glob("*/wrapper.py") if "_part" not in p.parent.name]
        path.write_text(path.read_text() + "\n")
        torch._dynamo.reset()
        with pytest.raises(UserError, match="is of a graph that was compiled in parts"):
            torch.compile(f, backend="bascule", options={"on_error": "raise", "replay": str(tmp_path)})(torch.randn(5))


def test_of_graphs_that_are_alike_the_one_of_its_name_counts(tmp_path):
    for name in ("graph0_forward", "graph1_forward"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "00-import.mlir").write_text("edited" if name == "graph1_forward" else "as it was")
        digest = "13bd3a1c5cbc4ca0ac0e2bc5ed6cbd9c1b0b5bd0"
        stage = f'{{"file": "00-import.mlir", "left_by": "import", "digest": "{digest}"}}'
        (folder / "stages.json").write_text(
            f'{{"format": 1, "graph": "{name}", "direction": "forward", "source": "same", "stages": [{stage}]}}'
        )
    assert edits_of(str(tmp_path), "graph1_forward", "same").folder == Path(tmp_path / "graph1_forward")
    with pytest.raises(UserError, match="graph7_forward may be graph0_forward or graph1_forward"):
        edits_of(str(tmp_path), "graph7_forward", "same")
