"""Graphs that were written to files, compiled and run again from them; how their results are compared."""

import os
import runpy
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from bascule.dialect.passes import registry
from bascule.dialect.user_classes import import_file
from torch._dynamo import config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import bascule
from bascule.debugging.accuracy import disagreements
from bascule.debugging.compare_results import differences
from bascule.debugging.fx_source import LITERAL
from bascule.debugging.symbol_values import Symbols
from bascule.entry.run_reproducer import loaded, traced
from bascule.pipelines import DEFAULT


def found(x):
    places = x.detach().relu().nonzero()
    return x[places[:, 0], places[:, 1]] * 2


def first_rows(x, count):
    rows = count.item()
    torch._check(rows >= 0)
    torch._check(rows <= x.shape[0])
    return x[:rows].sin().sum(0)


def masked(x):
    return torch.masked_select(x, x > 0).exp()


def repeated(x, counts):
    return torch.repeat_interleave(x, counts, dim=0).sin()


def unique(x):
    values, places, counts = torch.unique(x.detach().round(), return_inverse=True, return_counts=True)
    return x.sin(), values * 2, places + 1, counts


def chosen_rows(x):
    rows = torch.sin(x)[x[:, 0] > 0] * 2
    return rows * rows.shape[0]


def split(x, sizes):
    a, b = sizes.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    torch._check(a + b == x.shape[0])
    first, second = x.split([a, b])
    return first.sin().sum(0), second.cos()


def scaled(x, numbers):
    return x * numbers.sum().item()


SIZED = [
    (found,),
    (first_rows, torch.tensor(4)),
    (masked,),
    (repeated, torch.tensor([1, 2, 0, 3, 1, 1])),
    (unique,),
    (chosen_rows,),
    (split, torch.tensor([1, 5])),
    (scaled, torch.tensor([0.5, 2.0])),
]


@pytest.fixture(autouse=True)
def captured_whole():
    with config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


def dumped(folder, function, *inputs, dynamic=None, data=False, **more):
    """The files of a training step of `function`, or of a call where nothing needs a gradient."""
    options = {"directory": str(folder), "data": data, "on_error": "raise", **more}
    results = torch.compile(function, backend="bascule_dump", dynamic=dynamic, options=options)(*inputs)
    results = [x for x in (results if isinstance(results, tuple) else (results,)) if x.requires_grad]
    if results:
        torch.autograd.backward(results, [torch.randn_like(x) for x in results])
    return sorted(path for kind in ("forward", "backward", "inference") for path in folder.glob(f"*_{kind}.py"))


def run(path):
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("case", SIZED, ids=lambda case: case[0].__name__)
def test_sizes_that_data_decides(case, data, tmp_path, capsys):
    function, *more = case
    files = dumped(tmp_path, function, torch.randn(6, 5, requires_grad=True), *more, data=data)
    assert len(files) == 2
    for path in files:
        run(path)
    assert capsys.readouterr().out.count("the results are those of its operators") == 2


def test_metadata_has_only_the_elements_that_decide(tmp_path):
    x = torch.randn(6, 5, requires_grad=True)
    dumped(tmp_path, repeated, x, torch.tensor([1, 2, 0, 3, 1, 1]))
    (saved,) = tmp_path.glob("*_forward.pt")
    (counts,) = torch.load(saved).values()
    assert counts.tolist() == [1, 2, 0, 3, 1, 1]


def test_a_graph_keeps_its_symbols(tmp_path):
    def f(x, rows):
        return torch.cat([x, x]).sum(1) + x.shape[0], x[: rows.item()] * 2

    (path,) = dumped(tmp_path, f, torch.randn(6, 5), torch.tensor(3), dynamic=True)
    gm, inputs = traced(loaded(str(path)))
    hints = [x.node.hint for x in inputs if isinstance(x, torch.SymInt)]
    assert 6 in hints and any(isinstance(size, torch.SymInt) for x in inputs[1:] for size in getattr(x, "shape", ()))
    (results,) = gm.graph.output_node().args
    assert str(results[0].meta["val"].shape[0].node.expr).startswith("2*")
    run(path)


def test_a_refused_graph_is_refused_again(tmp_path):
    """No call: nobody knows the sizes that data decides."""

    options = {"directory": str(tmp_path), "fallback": "error"}
    x = torch.randn(6, 5, requires_grad=True)
    with pytest.raises(bascule.UnsupportedError) as wanted:
        torch.compile(split, backend="bascule_dump", options=options)(x, torch.tensor([1, 5]))
    (path,) = tmp_path.glob("*_forward.py")
    with pytest.raises(bascule.UnsupportedError) as again:
        run(path)
    assert again.value.message == wanted.value.message


def test_checks_of_a_solve(tmp_path, capsys):
    """A check returns nothing, and that has a node of its own where the file is traced again."""
    a, b = torch.randn(4, 4) + 4 * torch.eye(4), torch.randn(4, 2, requires_grad=True)
    files = dumped(tmp_path, lambda a, b: torch.linalg.solve(a, b) * 2, a, b, data=True)
    assert "with_effects" in files[1].read_text() or torch.__version__ < (2, 12)  # torch 2.11 drops the check
    for path in files:
        run(path)
    assert capsys.readouterr().out.count("the results are those of its operators") == len(files) == 2


LONG = list(range(2 * LITERAL, 0, -1))


def with_constants(x):
    small = torch.tensor([[float("nan"), -0.0], [float("-inf"), 0.1]]).t() * torch.tensor([1j, complex(2, -torch.inf)])
    branch = torch.cond(x.sum() > 0, lambda x: x + torch.tensor(LONG), lambda x: x - torch.tensor(LONG[::-1]), (x,))
    return small, branch * torch.tensor(3.0), x * torch.tensor(LONG)


@pytest.mark.parametrize("data", [False, True])
def test_constants(data, tmp_path):
    (path,) = dumped(tmp_path, with_constants, torch.rand(2 * LITERAL), data=data)
    run(path)
    module = loaded(str(path))
    x = torch.rand(2 * LITERAL)
    results, wanted = module.graph(x), with_constants(x)
    known = len(wanted) if data else 1  # without data long ones are random
    torch.testing.assert_close(results[:known], wanted[:known], rtol=0, atol=0, equal_nan=True)
    assert path.with_suffix(".pt").exists() == data


def test_a_constant_that_decides_sizes_is_saved(tmp_path):
    keep = [number % 3 == 0 for number in LONG]
    (path,) = dumped(tmp_path, lambda x: (x * torch.tensor(LONG))[torch.tensor(keep)], torch.rand(len(LONG)))
    (mask,) = torch.load(path.with_suffix(".pt")).values()
    assert mask.tolist() == keep
    run(path)


def test_guesses_satisfy_what_is_known():
    gms = []
    torch.compile(split, backend=lambda gm, inputs: gms.append(gm) or gm)(torch.randn(6, 5), torch.tensor([1, 5]))
    values = [node.meta.get("example_value") for node in gms[0].graph.nodes]
    sizes = [x for x in values if isinstance(x, torch.SymInt)]
    symbols = Symbols.of(sizes[:2], {})
    assert sum(symbols.numbers.values()) == 6 and any("6" in fact for fact in symbols.facts)


def deep(x, *weights):
    for weight in weights:
        x = F.layer_norm(x @ weight, x.shape[-1:])
    return x


def test_ill_conditioned_graphs_agree_with_their_operators(tmp_path, capsys):
    weights = [torch.randn(64, 64, requires_grad=True) for _ in range(6)]
    forward, backward = sorted(dumped(tmp_path, deep, torch.randn(32, 64), *weights), reverse=True)
    run(forward)
    run(backward)
    assert capsys.readouterr().out.count("the results are those of its operators") == 2


def test_results_that_overflow_are_not_compared(tmp_path, capsys):
    def product(x, *weights):
        for weight in weights:
            x = x @ weight
        return x

    (path,) = dumped(tmp_path, product, torch.randn(4, 512), *[torch.randn(512, 512) for _ in range(18)])
    run(path)  # 256 ** 18 is infinite: the inputs are made smaller
    assert "infinite" not in capsys.readouterr().out


def cancelling(x):
    """Ill-conditioned in the first row alone."""
    return ((x * torch.tensor([1e6, 1.0]).reshape(2, 1)).sin(),)


def test_errors_that_rounding_explains_are_no_difference():
    x = torch.randn(2, 100)
    gm = make_fx(cancelling)(x)
    (wanted,) = gm(x)
    other = torch.cat([(x[:1] * 1.1 * (1e6 / 1.1)).sin(), wanted[1:]])
    assert differences([wanted], [other])
    assert disagreements(gm, [x], [wanted], [other]) == []


@pytest.mark.parametrize("row", [0, 1])
def test_errors_beyond_rounding_are_found(row):
    x = torch.randn(2, 100)
    gm = make_fx(cancelling)(x)
    (wanted,) = gm(x)
    other = wanted.clone()
    other[row] += 1.5 if row == 0 else 0.01
    (told,) = disagreements(gm, [x], [wanted], [other])
    assert "from double precision" in told


def test_numbers_drawn_at_random(tmp_path, capsys):
    files = dumped(
        tmp_path, lambda x: F.dropout(x.sin(), 0.5) + torch.rand_like(x), torch.randn(40, requires_grad=True)
    )
    for path in files:
        run(path)
    assert capsys.readouterr().out.count("the results are those of its operators") == len(files) == 2


def test_narrow_floats(tmp_path, capsys):
    """PyTorch has next to no operators for them."""
    narrow = (torch.float8_e4m3fn, torch.float8_e5m2)
    given = [torch.randn(40).to(dtype) for dtype in narrow]
    (file,) = dumped(tmp_path, lambda x, *ys: (*map(x.to, narrow), *(y.float() for y in ys)), torch.randn(40), *given)
    run(file)
    assert "the results are those of its operators" in capsys.readouterr().out


FROM_OUTSIDE = """
from bascule.dialect.steering.hooks import Hooks
from tests.debugging.wrong_pass import Wrong


class Alone(Hooks):
    def may_fuse(self, fusion):
        raise RuntimeError("the hooks are asked")


class Again(Wrong):
    name = "test-again"
"""


@pytest.mark.parametrize(
    "options, told",
    [
        ({"hooks": "Alone"}, "the hooks are asked"),
        ({"pipeline": "Again"}, "computes other values than its operators"),
        ({"pipeline": "Again", "hooks": "Alone"}, "the hooks are asked"),
    ],
)
def test_a_new_process_has_what_is_from_outside(options, told, tmp_path, monkeypatch):
    """Passes and hooks of a user's: a failure that hangs on them is one of the file's too."""
    (tmp_path / "outside.py").write_text(FROM_OUTSIDE)
    module = import_file(str(tmp_path / "outside.py"))
    given = {}
    if "hooks" in options:
        given["hooks"] = module.Alone()
    if "pipeline" in options:
        monkeypatch.setitem(registry._added, "test-again", module.Again)
        given["pipeline"] = ",".join(DEFAULT).replace("canonicalize", "test-again,canonicalize", 1)
    with suppress(bascule.UserError):  # of the hooks
        dumped(tmp_path / "dump", lambda x: torch.exp(x.cos() * 2).sum(0), torch.randn(4, 4), **given)
    (file,) = (tmp_path / "dump").glob("*_inference.py")
    command, environment = [sys.executable, str(file)], {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and told in done.stderr, done.stderr


def test_an_operator_that_the_file_does_not_know(tmp_path):
    file = tmp_path / "graph.py"
    file.write_text(
        "import torch\n\ndef graph(x):\n    return (torch.ops.nobody.knows(x),)\n\n"
        "def inputs_of():\n    return [torch.empty(3)]\n\ndef example_inputs():\n    return inputs_of()\n"
        'from bascule.dumped_graphs import replay\nif __name__ == "__main__":\n    replay(__file__, {})\n'
    )
    with pytest.raises(bascule.UserError, match=r"nobody(.|\n)*import what registers them"):
        run(file)
