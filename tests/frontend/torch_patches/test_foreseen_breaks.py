"""A break that a capture has come upon in a function that it inlined is made in that function's own capture without tracing up to it twice; all
else is as Dynamo has it."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from bascule.compat.graphs.dynamo import InstructionTranslatorBase, config, convert_frame, counters
from bascule.entry import captures

X = torch.linspace(0, 1, 8)


def broken(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x * 2


class Model(torch.nn.Module):
    @property
    def factor(self) -> Any:
        torch._dynamo.graph_break()
        return lambda x: x * 3

    def at_a_call(self, x):
        x = x.sin() + 1
        y = broken(x) + x
        return y.sin() + 1

    def at_an_attribute(self, x):
        x = x.sin() + 1
        y = self.factor(x)
        return y - x

    def at_the_last_of_several(self, x):
        for each in (self.smooth, self.smooth, self.last):
            x = each(x) + 1
        return x

    def smooth(self, x):
        return x.sin() + 1

    def last(self, x):
        x = x.cos() + 1
        return self.factor(x) + broken(x)

    def in_a_chain(self, x):
        return self.at_a_call(x.sin() + 1) + 1

    def in_the_second(self, x):
        return self.once_or_twice(self.once_or_twice(x, 0), 1)

    def once_or_twice(self, x, number):
        x = x.sin() + number
        x = x + 1
        return broken(x) + 1 if number else x

    def within_autocast(self, x):
        x = x.sin() + 1
        with torch.autocast("cpu"):
            x = broken(x) + x
        return x + 1

    def within_try(self, x):
        x = x.sin() + 1
        try:
            x = broken(x) + x
        finally:
            x = x + 1
        return x


KINDS = [name for name in vars(Model) if name.startswith(("at_", "in_", "within_"))]
LESS = {name: [name] for name in ("at_a_call", "at_an_attribute", "within_autocast")} | {
    "in_a_chain": ["in_a_chain", "at_a_call"],
    "in_the_second": ["in_the_second", "once_or_twice"],
}


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def failed(monkeypatch) -> list[str]:
    """The functions whose captures began again, as often as they did."""
    found, theirs = list[str](), convert_frame.trace_frame

    def trace(code, *how, **named):
        try:
            return theirs(code, *how, **named)
        except Exception:
            found.append(code.co_name)
            raise

    monkeypatch.setattr(convert_frame, "trace_frame", trace)
    return found


def counted(function: Callable[..., torch.Tensor], backend: str) -> dict[str, Any]:
    """Counts of Dynamo; the result is that of eager."""
    torch._dynamo.reset()
    captures.pause_in_captures()
    counters.clear()
    torch.testing.assert_close(torch.compile(function, backend=backend)(X), function(X))
    return {name: dict(counters[name]) for name in ("graph_break", "unimplemented", "stats", "frames")}


@pytest.mark.parametrize("kind", KINDS)
def test_all_is_as_without_but_for_what_begins_again(kind, failed):
    model = Model()

    def outer(x):
        return getattr(model, kind)(x + 1) + 1

    want = counted(outer, "eager")
    theirs = [*failed]
    failed.clear()
    assert counted(outer, "bascule") == want
    for name in LESS.get(kind, ()):
        theirs.remove(name)
    assert failed == theirs


def test_messages_are_those_of_a_capture_that_comes_upon_it(monkeypatch):
    model, told = Model(), list[str]()

    def outer(x):
        return model.in_a_chain(x + 1) + 1

    theirs = sys.modules[InstructionTranslatorBase.__module__]
    monkeypatch.setattr(theirs.graph_break_log, "isEnabledFor", lambda level: True)
    monkeypatch.setattr(
        theirs.graph_break_log, "debug", lambda text, *parts: told.append(text % parts if parts else text)
    )

    def messages(backend):
        theirs.graph_break_dup_warning_checker.reset()
        told.clear()
        counted(outer, backend)
        return [*told]

    want, found = [messages(backend) for backend in ("eager", "bascule")]  # from one line, which they name
    assert len(want) == 4
    assert found == want


def test_a_function_that_goes_another_way_is_traced_as_ever(monkeypatch, failed):
    model, before = Model(), list[bool]()

    def inner(x):
        if before:
            x = x.cos() + 2
            x = x + 3
        x = x.sin() + 1
        return broken(x) + x

    def outer(x):
        return inner(x + 1) + model.smooth(x)

    theirs = convert_frame.compile_frame

    def compile_frame(code, *how, **named):
        if code is inner.__code__:
            before.append(True)
        return theirs(code, *how, **named)

    monkeypatch.setattr(convert_frame, "compile_frame", compile_frame)
    captures.pause_in_captures()
    found = torch.compile(outer, backend="bascule")(X)
    torch.testing.assert_close(found, outer(X))
    assert failed.count("inner") == 1


def test_what_is_known_is_of_the_next_capture_alone(failed):
    model = Model()

    def other(x):
        return x - 1

    def outer(x):
        return model.at_a_call(x + 1)

    captures.pause_in_captures()
    x = torch.compile(outer, backend="bascule")(X)
    failed.clear()
    for function in (other, model.at_a_call):
        x = torch.compile(function, backend="bascule", dynamic=True)(x)
    assert failed == ["at_a_call", "broken"]


def test_a_whole_graph_is_refused_as_ever():
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(Model().in_a_chain, backend="bascule", fullgraph=True)(X)


def test_graphs_that_break_in_place_are_left_alone():
    model = Model()

    def outer(x):
        return model.at_a_call(x + 1) + 1

    with config.patch(nested_graph_breaks=True):
        assert counted(outer, "bascule") == counted(outer, "eager")
