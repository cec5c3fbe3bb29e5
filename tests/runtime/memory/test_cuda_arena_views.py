"""Small arenas on a GPU, which are kept between calls with their views. The kernels are interpreted here, on CPU memory."""

import re

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.passes import Pipeline
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.rewriter import convert_module
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.program import Plans, to_python
from bascule.lowering.triton.compile.programs import lower_kernels
from bascule.lowering.triton.interpreter.plans import InterpretedKernels
from bascule.runtime.kernels.launch_plans import vocabulary
from bascule.runtime.memory import cuda_arena_views
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.targets.placement import Placement

PASSES = (
    "fold-views,simplify-indexing,inline-producers,canonicalize,cse,form-kernels,"
    "schedule-kernels{target=cuda},order-program,bufferize-kernels,plan-memory{target=cuda}"
)
STREAM = 7


@pytest.fixture
def no_capture(monkeypatch):
    monkeypatch.setattr(cuda_arena_views, "_capturing", lambda: False)


def program_of(function, *inputs, tracing_mode="fake"):
    """The text of a program for a GPU, and its names once it is run where the GPU is the CPU."""
    gm = make_fx(function, tracing_mode=tracing_mode)(*inputs)
    module = import_graph(gm, inputs, context=context()).module
    Placement(torch.device("cuda", 0)).annotate(module)
    convert_module(module, Asked())
    Pipeline.parse(PASSES).run(module)
    lowered = lower_kernels(module)
    text = to_python(module, Plans("cuda:0", lowered.launches, "graph7_forward"))
    here = text.replace("empty_cuda as empty,", "empty,")
    here = here.replace("    current_stream,\n", "").replace("    take_arena_cuda as take_arena,\n", "")
    names = {**vocabulary(InterpretedKernels(module, lowered)), "constants": ()}
    names |= {
        "current_stream": lambda index: STREAM,
        "take_arena": lambda size, graph: torch.empty(size, dtype=torch.uint8),
    }
    exec(here, names)
    return text, names


def two_layers(x, w, v):
    y = torch.relu(x @ w.t())
    return (y @ v.t()).exp() + 1, y.sum(-1)


def inputs(rows=3):
    return torch.randn(rows, 16), torch.randn(24, 16), torch.randn(8, 24)


def lines_with(text, part):
    return [line.strip() for line in text.splitlines() if part in line]


def test_a_small_arena_is_kept_with_its_views(no_capture):
    text, names = program_of(two_layers, *inputs())
    body = text[text.index("def call") : text.index("def lay_out")]
    assert "take_arena(" in body and "= view(arena" not in body
    products = lines_with(body, "mm_out(")
    assert len(products) == 2
    assert re.match(r"mm_out\(in1, in0_t\d+, out=arena_t\d+\)", products[0]), "no view of a weight"
    (free,) = [names["kept"](STREAM)]
    taken = []
    for _ in range(3):
        given = inputs()
        got, want = names["call"](list(given)), two_layers(*given)
        for mine, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(mine, theirs)
        taken += [layout[0].data_ptr() for layout in free]
    assert len(taken) == 3 and len(set(taken)) == 1, "one arena, which is back after each call"


def test_what_is_returned_lies_in_no_arena(no_capture):
    _, names = program_of(two_layers, *inputs())
    first_inputs = inputs()
    first = names["call"](list(first_inputs))
    names["call"](list(inputs()))
    for mine, theirs in zip(first, two_layers(*first_inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_call_that_raises_keeps_no_arena(no_capture):
    _, names = program_of(two_layers, *inputs())
    names["call"](list(inputs()))
    assert len(names["kept"](STREAM)) == 1
    x, w, v = inputs()
    with pytest.raises(RuntimeError):
        names["call"]([x, w, v.double()])
    assert not names["kept"](STREAM)
    got = names["call"]([x, w, v])
    torch.testing.assert_close(got[0], two_layers(x, w, v)[0])


def test_each_stream_and_each_call_at_work_has_its_own(no_capture):
    kept = cuda_arena_views.kept_layouts()
    kept(1).append("a")
    assert kept(1) == ["a"] and kept(2) == []
    assert kept(1).pop() == "a" and kept(1) == [], "a second call finds none, and makes one"


def test_inference_mode_and_none(no_capture):
    """Outside of it nothing may be written to a tensor that was made in it."""
    _, names = program_of(two_layers, *inputs())
    for mode in (True, False, True, False):
        given = inputs()
        with torch.inference_mode(mode), torch.no_grad():
            got, want = names["call"](list(given)), two_layers(*given)
        for mine, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(mine, theirs)


def test_recordings_have_memory_of_their_own(monkeypatch):
    kept, capturing = cuda_arena_views.kept_layouts(), False
    monkeypatch.setattr(cuda_arena_views, "_capturing", lambda: capturing)
    kept(1).append("a")
    capturing = True
    kept(1).append("b")
    assert kept(1) == []
    capturing = False
    with cuda_arena_views.memory_apart():
        assert kept(1) == []
    assert kept(1) == ["a"]


def test_large_and_dynamic_arenas_are_not_kept():
    large, _ = program_of(two_layers, torch.randn(4096, 16), *inputs()[1:])
    dynamic, _ = program_of(two_layers, *inputs(), tracing_mode="symbolic")
    for text in (large, dynamic):
        assert "arena = take_arena(" in text and "lay_out" not in text


def test_a_tensor_of_no_elements_is_laid_out_by_each_call(no_capture):
    """Its arena is the same at every call, its sizes are not."""

    _, names = program_of(lambda x: ((x[:0] + 1) @ x.t(),), torch.randn(3, 16), tracing_mode="symbolic")
    for rows, columns in ((3, 16), (5, 8)):
        x = torch.randn(rows, columns)
        (found,) = names["call"]([x])
        assert found.shape == (0, rows)
