"""The line on the terminal: what it tells, that nothing is left of it, and where there is none."""

import io
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from bascule.options import Options
from bascule.reporting import progress
from bascule.reporting.compile_record import Record


class Terminal(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(
        progress, "sys", SimpleNamespace(stderr=stream)
    )  # pytest sets its own before each phase of a test
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    return stream


def record(name: str, running: str) -> Record:
    made = Record(name, Options(), 3)
    made.running = running
    return made


def until(stream: Terminal, text: str) -> None:
    """Waits for `text` on the terminal."""
    end = time.monotonic() + 30
    while text not in stream.getvalue():
        assert time.monotonic() < end, stream.getvalue()
        time.sleep(0.005)


def test_it_tells_of_the_innermost_compile_and_goes(terminal):
    whole, part = record("graph0_forward", "form-kernels"), record("graph0_forward_1", "jit")
    part.kernels_done = lambda: (3, 8)
    with progress.shown(whole):
        until(terminal, "bascule: graph0_forward: form-kernels, 0 s")
        with progress.shown(part):
            until(terminal, "bascule: graph0_forward_1: jit, 3 of 8 kernels, 0 s")
        whole.running = "plan-memory"
        until(terminal, "plan-memory")
    assert terminal.getvalue().endswith(progress.WIPE)
    drawn = terminal.getvalue()
    time.sleep(0.05)
    assert terminal.getvalue() == drawn


def test_a_failure_wipes_it_too(terminal):
    with pytest.raises(ValueError), progress.shown(record("graph0_inference", "import")):
        until(terminal, "import")
        raise ValueError
    assert terminal.getvalue().endswith(progress.WIPE)


def test_what_is_short_has_none(terminal, monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 60.0)
    with progress.shown(record("graph0_inference", "import")):
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("dumb", [True, False])
def test_where_there_is_no_terminal_there_is_none(terminal, monkeypatch, dumb):
    terminal.terminal = dumb
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    with progress.shown(record("graph0_inference", "import")):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_other_threads_have_none(terminal):
    def compile() -> None:
        with progress.shown(record("graph0_inference", "import")):
            time.sleep(0.05)

    thread = threading.Thread(target=compile)
    thread.start()
    thread.join()
    assert terminal.getvalue() == ""


def test_a_compile_has_one(terminal, monkeypatch):
    """With no wait at all, so that each stage that takes long enough to be drawn is."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    torch._dynamo.reset()
    x = torch.randn(64, 64)
    compiled = torch.compile(lambda x: torch.softmax(x.sin() @ x, -1), backend="bascule", options={"cache": False})
    torch.testing.assert_close(compiled(x), torch.softmax(x.sin() @ x, -1))
    assert "_inference: " in terminal.getvalue() and "kernels, 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith(progress.WIPE)


def test_who_compiles_goes_without_it_where_no_thread_can_begin(terminal, monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    for name in ("graph0_forward", "graph1_forward"):
        with progress.shown(record(name, "form-kernels")):
            time.sleep(0.03)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("begun", [False, True])
def test_nothing_draws_on_after_a_signal_while_its_thread_is_begun(begun, terminal, monkeypatch):
    def start(self):
        threads.append(self)
        if begun:
            real(self)
        raise KeyboardInterrupt

    real, threads = threading.Thread.start, []
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt), progress.shown(record("graph0_forward", "form-kernels")):
        pass
    assert not threads[0].is_alive()
    monkeypatch.setattr(threading.Thread, "start", real)
    with progress.shown(record("graph1_forward", "form-kernels")):
        until(terminal, "graph1_forward")
    assert "graph0_forward" not in terminal.getvalue()
