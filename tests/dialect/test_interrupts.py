"""Which exceptions are a signal handler's."""

import ast
import signal
from functools import partial
from pathlib import Path

import pytest
from bascule.dialect.interrupts import interrupt_in, pass_on
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir


class TimeUp(Exception):
    pass


def raises(*_):
    raise TimeUp


class Job:
    def over(self, *_):
        raises()

    def __call__(self, *_):
        raises()


@pytest.mark.parametrize("handler", [raises, lambda *_: raises(), partial(raises, 1), Job().over, Job()])
def test_what_a_handler_raises_is_told_from_what_its_line_raises(handler):
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(TimeUp) as raised:
            signal.raise_signal(signal.SIGUSR2)
        with pytest.raises(ValueError) as wrapped:
            try:
                signal.raise_signal(signal.SIGUSR2)
            except TimeUp as error:
                raise ValueError from error
        with pytest.raises(KeyError) as other:
            {}["a"]
        assert [type(interrupt_in(error.value)) for error in (raised, wrapped, other)] == [TimeUp, TimeUp, type(None)]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_signal_in_a_callback_of_mlir_is_delivered_again():
    """The bindings keep no more than a text of what a callback raises."""
    before = signal.signal(signal.SIGUSR2, raises)

    def visit(_):
        signal.raise_signal(signal.SIGUSR2)
        return ir.WalkResult.ADVANCE

    try:
        with context(), pytest.raises(RuntimeError) as lost:
            ir.Module.parse("").operation.walk(visit)
        with pytest.raises(TimeUp):
            pass_on(lost.value)
        pass_on(RuntimeError("Exception raised in callback: another"))
        signal.signal(signal.SIGUSR2, lambda *_: None)  # one that raises no more
        lost.value.args = (lost.value.args[0].replace("in raises", "in <lambda>"),)
        with pytest.raises(RuntimeError, match="TimeUp"):
            pass_on(lost.value)
    finally:
        signal.signal(signal.SIGUSR2, before)


ROOT = Path(__file__).parents[2]
# Of these a job's time-out is one: `TimeoutError` is an `OSError`.
BROAD = {"Exception", "OSError", "RuntimeError"}


def broad(type_):
    """Whether `type_`, of a handler, or among what is suppressed, is one of `BROAD`, or a tuple with one."""
    return any(isinstance(node, ast.Name) and node.id in BROAD for node in ast.walk(type_))


def passes_on(handler):
    """Whether a handler raises something from what it caught, or calls `pass_on`."""
    nodes = [node for statement in handler.body for node in ast.walk(statement)]
    hidden = {
        node for node in nodes if isinstance(node, ast.Raise) and isinstance(node.cause, ast.Constant)
    }  # `from None`
    return any(
        (isinstance(node, ast.Raise) and node not in hidden)
        or "pass_on" in (getattr(node, "id", None), getattr(node, "attr", None))
        for node in nodes
    )


def swallowing(file):
    """Functions of `file` that catch what is broad, and do not pass it on."""
    for function in ast.walk(ast.parse(file.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            handles = isinstance(node, ast.ExceptHandler) and node.type is not None and broad(node.type)
            if handles and not passes_on(node):
                yield function.name
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "suppress" and any(map(broad, node.args)):
                yield function.name


def test_whoever_catches_everything_passes_signals_on():
    """By raising something from it, or by `pass_on`."""
    files = [
        file for folder in ("bascule", "frontend", "dialect", "lowering") for file in (ROOT / folder).rglob("*.py")
    ]
    assert {f"{file.relative_to(ROOT)}:{name}" for file in files for name in swallowing(file)} == set()
