"""Signals whose handlers raise while object code comes through its pipe: nobody else's files are read, and no thread waits for ever."""

import os
from contextlib import contextmanager
from threading import Event

import pytest
from bascule.lowering import threads
from bascule.lowering.cpu.jit import object_file
from bascule.lowering.cpu.jit.machine_code import MachineCode

MODULE = b"module { func.func @_mlir_f() { return } }"


class Signal(BaseException):
    """Raised by a handler."""


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def at_start(monkeypatch, late):
    """While the thread is waited for."""

    def start(work):
        reads.append(threads.start(lambda: (late.wait(60), work())[1]))
        raise Signal

    reads = []
    monkeypatch.setattr(object_file, "start", start)
    return reads


def at_writing(monkeypatch, late):
    @contextmanager
    def interrupted():
        raise Signal
        yield

    monkeypatch.setattr(object_file, "_signals_kept", interrupted)
    reads, start = [], threads.start

    def slowly(work):
        reads.append(start(lambda: (late.wait(60), work())[1]))
        return reads[0]

    monkeypatch.setattr(object_file, "start", slowly)
    return reads


@pytest.mark.parametrize("interrupted", [at_start, at_writing])
def test_a_thread_that_reads_late_reads_its_own_pipe(interrupted, monkeypatch):
    code, late, before = MachineCode.of(MODULE, []), Event(), descriptors()
    reads = interrupted(monkeypatch, late)
    with pytest.raises(Signal):
        code.object_file()
    pipes = [os.pipe() for _ in range(3)]  # which have the lowest numbers that are free
    for _, writing in pipes:
        os.write(writing, b"others")
        os.close(writing)
    late.set()
    assert reads[0].result(60) == b""
    with threads._changed:
        assert threads._changed.wait_for(lambda: not threads._running, 60)
    for reading, _ in pipes:
        assert os.read(reading, 9) == b"others"
        os.close(reading)
    assert descriptors() == before


def test_code_comes_after_an_interrupted_one(monkeypatch):
    code = MachineCode.of(MODULE, [])
    with monkeypatch.context() as patched, pytest.raises(Signal):
        late = Event()
        late.set()
        at_start(patched, late)
        code.object_file()
    assert code.object_file().startswith(b"\x7fELF")
