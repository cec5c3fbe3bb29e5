"""Work on other threads, and where there can be none: a container allows so many, and the end of a process allows none."""

import os
import signal
import subprocess
import sys
import threading

import pytest
import torch
from bascule.dialect.roomy_threads import with_room
from bascule.lowering import threads

import bascule
from bascule.tiers import background


@pytest.fixture
def no_threads(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(background, "_thread", None)


def function(x):
    y = torch.softmax(x, -1).cumsum(0)
    return (torch.nn.functional.gelu(y) * x.erfinv()).sum(0)


@pytest.mark.parametrize("tiers", [False, True])
def test_graphs_are_compiled_by_the_thread_that_asks(no_threads, tmp_path, monkeypatch, tiers):
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise", "tiers": tiers})
    x = torch.rand(5, 7, requires_grad=True)
    for _ in range(3):
        out, wanted = compiled(x), function(x)
        torch.testing.assert_close(out, wanted)
        torch.testing.assert_close(torch.autograd.grad(out.sum(), x), torch.autograd.grad(wanted.sum(), x))
    assert bascule.wait_for_kernels(1)
    assert bascule.counters()["graphs"]["compiled"] == 2 and not bascule.counters()["fallbacks"]
    assert not threads._running, "a fork, and the end of the process, would wait for ever"


def test_what_needs_another_thread_says_that_there_is_none(no_threads):
    with pytest.raises(OSError, match="can't start new thread"):
        threads.start(int)
    assert threads.start_or_do(int).result() == 0
    assert isinstance(threads.start_or_do(lambda: 1 // 0).exception(), ZeroDivisionError)
    assert not threads._running


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError, RuntimeError])
@pytest.mark.parametrize("begun", [False, True])
def test_a_signal_while_a_thread_is_begun_leaves_nothing_to_wait_for(begun, kind, monkeypatch):
    def handler(*_):
        raise kind("told by a handler")

    def start(self):
        if begun:
            real(self)
        signal.raise_signal(signal.SIGUSR1)

    real, done = threading.Thread.start, threading.Event()
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with monkeypatch.context() as patched, pytest.raises(kind, match="told by a handler"):
            patched.setattr(threading.Thread, "start", start)
            threads.start(done.set)
    finally:
        signal.signal(signal.SIGUSR1, before)
    with threads._changed:
        assert threads._changed.wait_for(lambda: not threads._running, 60)
    assert done.is_set() == begun


@pytest.mark.parametrize("few", [0, 1, 2, 9])
@pytest.mark.parametrize("number", [1, 3, 20])
def test_each_is_done_once_however_many_threads_there_are(monkeypatch, few, number):
    """`few`: how many start before there are no more."""
    real, started, done, by = threading.Thread.start, [], [], set()

    def start(self):
        if len(started) == few:
            raise RuntimeError("can't start new thread")
        started.append(self)
        real(self)

    def work(item):
        done.append(item)
        by.add(threading.current_thread())
        return item * 2

    monkeypatch.setattr(threading.Thread, "start", start)
    found = {item: future.result() for item, future in threads.as_done(work, range(number), 4)}
    assert found == {item: item * 2 for item in range(number)}
    assert sorted(done) == [*range(number)] and len(by) <= max(1, min(4, number, few))
    assert len(started) == min(few, 4, number) and not list(threads.as_done(work, [], 4))


def test_an_error_is_of_one_and_nothing_is_begun_that_nobody_asks_for():
    """One thread, which waits before its second item until the first was taken."""
    taken, begun = threading.Event(), []

    def work(item):
        begun.append(item)
        assert item == 0 or taken.wait(60)
        return 1 // item

    results = threads.as_done(work, range(9), 1)
    item, future = next(results)
    assert item == 0 and isinstance(future.exception(), ZeroDivisionError)
    results.close()
    taken.set()
    with threads._changed:
        assert threads._changed.wait_for(lambda: not threads._running, 60)
    assert begun in ([0], [0, 1])


def test_a_signal_while_threads_are_begun_leaves_what_they_did_not_begin(monkeypatch):
    taken, begun, real = threading.Event(), [], threads.start

    def interrupted(work):
        if begun:
            raise KeyboardInterrupt
        begun.append(None)
        return real(work)

    def work(item):
        begun.append(item)
        taken.wait(60)

    monkeypatch.setattr(threads, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(threads.as_done(work, range(9), 4))
    taken.set()
    with threads._changed:
        assert threads._changed.wait_for(lambda: not threads._running, 60)
    assert begun in ([None], [None, 0])


STEP = """
import threading, torch

def work():
    x = torch.linspace(-2, 2, 60).view(6, 10).requires_grad_()
    out = torch.compile(lambda x: torch.softmax(x, -1).cumsum(0).sort(1)[0].sum(1).nonzero() + x.logsumexp(0).sum(), backend="bascule",
                        options={{"on_error": "raise", "tiers": {tiers}}})(x)
    out.sum().backward()
    told.append(x.grad.isfinite().all().item())

told = []
threading.stack_size(192 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert threading.stack_size() == 192 << 10 and told == [True]
"""


@pytest.mark.parametrize("tiers", [False, True])
def test_a_thread_with_little_stack_compiles(tiers, tmp_path):
    """MLIR's library is loaded, and LLVM runs, on threads that have much."""
    environment = {**os.environ, "BASCULE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", STEP.format(tiers=tiers)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_what_fails_with_room_fails_for_who_asked():
    def asked():
        with pytest.raises(ZeroDivisionError):
            with_room(lambda: 1 // 0)
        by.append(with_room(threading.current_thread))

    by = []
    thread = threading.Thread(target=asked)
    thread.start()
    thread.join()
    assert (
        by[0] not in (thread, threading.main_thread())
        and with_room(threading.current_thread) is threading.main_thread()
    )
