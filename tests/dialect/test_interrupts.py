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
# Functions that other threads run: signals are handled in the main one.
ON_THREADS = {"lowering/triton/compile/compilation.py:make"}


def handlers_of_all(file):
    """The handlers of `Exception` in `file`, by the function around each."""
    for function in ast.walk(ast.parse(file.read_text())):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.ExceptHandler)
                    and isinstance(node.type, ast.Name)
                    and node.type.id == "Exception"
                ):
                    yield function.name, node


def test_whoever_catches_everything_passes_signals_on():
    """By raising something from it, or by `pass_on`."""
    files = [
        file for folder in ("bascule", "frontend", "dialect", "lowering") for file in (ROOT / folder).rglob("*.py")
    ]
    kept = {
        f"{file.relative_to(ROOT)}:{name}"
        for file in files
        for name, handler in handlers_of_all(file)
        if not any(
            isinstance(node, ast.Raise) or "pass_on" in (getattr(node, "id", None), getattr(node, "attr", None))
            for node in ast.walk(handler)
        )
    }
    assert {
        name for name in kept if not any(name.startswith(f"{own.rpartition(':')[0]}:") for own in ON_THREADS)
    } == set()
