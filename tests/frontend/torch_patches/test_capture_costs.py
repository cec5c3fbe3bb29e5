"""Work of Dynamo that nobody sees is skipped in captures of ours, and nothing of that is left after."""

import subprocess
import sys
import traceback
from collections.abc import Iterator

import pytest
import torch
from bascule.frontend.torch_patches.captures import guard_latency, local_map_import, source_places
from bascule.frontend.torch_patches.captures.local_classes import with_classes_once
from bascule.frontend.torch_patches.patch import attribute

from bascule.compat.graphs.dynamo import (
    InstructionTranslatorBase,
    VariableBuilder,
    config,
    convert_frame,
    guards,
    higher_order_ops,
    output_graph,
)
from bascule.entry import captures

PLACES = [
    (VariableBuilder, "_wrap"),
    (InstructionTranslatorBase, "get_line_of_code_header"),
    (InstructionTranslatorBase, "is_co_filename_from_nn_modules"),
    (output_graph, "traceback"),
    (getattr(higher_order_ops, "LocalMapWrappedHigherOrderVariable", None), "should_wrap_in_hop"),
    (guards, "profile_guard_manager"),
    (convert_frame, "transform_code_object"),
    (config, "verbose"),
]
SEEN: list[list[object]] = []


def in_force() -> list[object]:
    return [None if owner is None else vars(owner).get(name) for owner, name in PLACES]


@torch._dynamo.allow_in_graph
def seen(x: torch.Tensor) -> torch.Tensor:
    """Runs while Dynamo captures, on fake tensors."""
    SEEN.append(in_force())
    return x + 1


def f(x: torch.Tensor) -> torch.Tensor:
    return seen(x) * 2


@pytest.fixture(autouse=True)
def told_of_captures() -> Iterator[None]:
    torch._dynamo.reset()
    captures.pause_in_captures()
    SEEN.clear()
    yield
    torch._dynamo.reset()


def test_a_capture_of_ours_has_all_of_them_and_leaves_none():
    before = in_force()
    torch.compile(f, backend="bascule")(torch.ones(3))
    assert all(now is not then for now, then in zip(SEEN[0], before) if then is not None)
    assert SEEN[0][-1] is config.verbose
    assert in_force() == before


def test_a_capture_of_others_has_none():
    before = in_force()
    torch.compile(f, backend="eager")(torch.ones(3))
    assert SEEN[0] == before


def test_what_somebody_else_put_there_stays(monkeypatch):
    def theirs(self, lineno=None):
        return "theirs"

    monkeypatch.setattr(InstructionTranslatorBase, "get_line_of_code_header", theirs)
    torch.compile(f, backend="bascule")(torch.ones(3))
    assert SEEN[0][1] is theirs and in_force()[1] is theirs


def local(base: type) -> tuple[type, type, type]:
    class Plain:
        pass

    class Derived(base):
        pass

    class Closed:
        of = base

    return Plain, Derived, Closed


def test_classes_that_a_function_defines_are_made_once_where_they_are_the_same():
    once = with_classes_once(local)
    first, second = once(int), once(float)
    assert first[0] is second[0]
    assert second[1].__bases__ == (float,)
    assert (first[2].of, second[2].of) == (int, float)
    assert local(int)[0] is not local(int)[0]
    assert once.__globals__ is local.__globals__
    assert once.__name__ == local.__name__


def test_the_function_that_defines_classes_sees_its_modules_names_as_they_are(monkeypatch):
    once = with_classes_once(in_force)
    monkeypatch.setitem(globals(), "PLACES", [])
    assert once() == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lines of which Dynamo asked the name of the function around them."""
    found, theirs = [], source_places._theirs

    def header(self, lineno=None):
        found.append(lineno)
        return theirs(self, lineno)

    monkeypatch.setattr(source_places, "_theirs", header)
    return found


def test_lines_are_named_where_the_log_shows_them(asked, capfd):
    torch.compile(f, backend="bascule")(torch.ones(3))
    assert not asked
    torch._dynamo.reset()
    captures.pause_in_captures()
    torch._logging.set_logs(trace_call=True)
    try:
        torch.compile(f, backend="bascule")(torch.ones(3))
    finally:
        torch._logging.set_logs()
    assert asked
    assert "TRACE FX call" in capfd.readouterr().err


def test_guards_are_timed_cold_where_the_log_shows_how_long_they_take(monkeypatch):
    cold, theirs = [], guard_latency._theirs

    def timed(*args):
        cold.append(theirs(*args))
        return cold[-1]

    monkeypatch.setattr(guard_latency, "_theirs", timed)
    monkeypatch.setattr(guards, "profile_guard_manager", timed)
    monkeypatch.setattr(captures, "_patches", (attribute(guards, "profile_guard_manager", timed, guard_latency._warm),))
    torch.compile(f, backend="bascule")(torch.ones(3))
    assert not cold
    torch._dynamo.reset()
    captures.pause_in_captures()
    torch._logging.set_logs(guards=True)
    try:
        torch.compile(f, backend="bascule")(torch.ones(3))
    finally:
        torch._logging.set_logs()
    assert len(cold) == 1


def test_guards_are_timed_by_a_check(monkeypatch):
    found = []
    increment = guards.CompileEventLogger.increment_toplevel
    monkeypatch.setattr(
        guards.CompileEventLogger,
        "increment_toplevel",
        lambda name, by=1: found.append((name, by)) or increment(name, by),
    )
    torch.compile(f, backend="bascule")(torch.ones(3))
    ((_, microseconds),) = [each for each in found if "guard_latency" in each[0]]
    assert 0 <= microseconds < 1e6


def test_local_map_is_known_where_it_is_imported():
    asking = PLACES[4][0]
    if asking is None or not torch.distributed.is_available():
        pytest.skip("this PyTorch has none")
    from torch.distributed.tensor.experimental._func_map import _local_map_wrapped as wrapped

    with local_map_import.local_map_as_imported:
        assert asking.should_wrap_in_hop(wrapped) == asking._enabled
        assert not asking.should_wrap_in_hop(f)


def test_a_first_step_imports_no_operators_of_context_parallelism_and_no_classes_of_the_torch_dialect():
    code = """
import sys, torch
x = torch.randn(4, 4, requires_grad=True)
torch.compile(lambda x: torch.nn.functional.gelu(x).sum(), backend="bascule", options={"cache": False})(x).backward()
asked = ("torch.distributed.tensor.experimental", "torch_mlir.dialects._torch_ops_gen", "torch_mlir.dialects._llvm_ops_gen")
print([name for name in asked if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["[]"]


def test_stack_traces_are_dynamos_and_a_place_is_written_once(monkeypatch):
    graphs = []

    def keep(gm, inputs):
        graphs.append(gm)
        return gm.forward

    def inner(x):
        return torch.sin(x) + torch.cos(x)  # two operators at columns of one line

    def outer(x):
        return inner(x) * inner(x + 1)

    def traces():
        torch._dynamo.reset()
        torch.compile(outer, backend=keep)(torch.ones(3))
        return [node.stack_trace for node in graphs.pop().graph.nodes]

    written, theirs = [], traceback.StackSummary.format_frame_summary

    def write(self, frame, **how):
        written.append((frame.filename, frame.lineno, frame.name, frame.colno, frame.end_colno))
        return theirs(self, frame, **how)

    expected = traces()
    monkeypatch.setattr(traceback.StackSummary, "format_frame_summary", write)
    with source_places.stack_texts_once:
        assert traces() == expected
        places = [place for place in written if place[0] == __file__]
        assert len(places) == len({*places})
    assert any("in inner" in text for text in expected if text)
    assert not source_places._texts
