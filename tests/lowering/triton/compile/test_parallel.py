"""Kernels that threads compile as they are added. Triton's work is replaced where only the order of things matters."""

import os
from dataclasses import replace
from threading import Event, Lock

import pytest
import torch
from bascule.dialect.errors import CompilerError
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.lowering import threads
from bascule.lowering.triton import TritonKernel, compile_kernels
from bascule.lowering.triton.compile import parallel
from bascule.lowering.triton.compile.kernel_cache import KernelCache, MachineCode
from bascule.lowering.triton.compile.parallel import Compiling, start_compiling
from bascule.lowering.triton.compile.programs import lower_kernels

from bascule.cache.disk.store import Store
from bascule.cache.stores.backed_store import BackedStore
from tests.lowering.triton.check import program


def kernel(name: str, length: int = 1, location: str = "") -> TritonKernel:
    return TritonKernel(name, name.partition("_")[0].ljust(length), None, 4, 2, location)


class Triton:
    """Stands for Triton: `asked` are the kernels, in order. Each waits for `may_go`; those that are `bad` fail."""

    def __init__(self):
        self.asked, self.may_go, self.begun, self.bad, self._lock = [], Event(), Event(), {}, Lock()

    def machine_code(self, kernel, capability):
        with self._lock:
            self.asked.append(kernel.name)
        self.begun.set()
        assert self.may_go.wait(60)
        if kernel.name in self.bad:
            raise self.bad[kernel.name]
        return MachineCode(kernel.name.encode(), kernel.name, 4, 0, kernel.location)


@pytest.fixture
def triton(monkeypatch):
    triton = Triton()
    monkeypatch.setattr(parallel, "machine_code", triton.machine_code)
    yield triton
    triton.may_go.set()


def test_compiling_is_waited_for_at_the_end(triton, tmp_path):
    """`start_compiling` returns while Triton is at work; what it made is on disk when `result` has it."""
    cache = KernelCache(BackedStore(Store(tmp_path, "kernels", 1 << 30)))
    started = start_compiling([kernel("a")], 90, cache)
    assert triton.begun.wait(60) and started.done() == (0, 1)
    triton.may_go.set()
    (code,) = started.result().values()
    again = start_compiling([kernel("a")], 90, cache)
    assert again.result()["a"].cubin == code.cubin and triton.asked == ["a"] and again.done() == (1, 1)


def test_one_thread_takes_the_longest_first_and_equal_ones_once(triton, monkeypatch):
    monkeypatch.setattr(parallel, "processors", lambda: 1)
    started = Compiling(90)
    started.add([kernel("first")])
    assert triton.begun.wait(60)
    started.add([kernel("short", 10), kernel("long", 1000)])
    started.add([kernel("short_2", 10, "model.py:3:0"), kernel("longer", 2000)])
    assert started.done() == (0, 4)
    triton.may_go.set()
    codes = started.result()
    assert triton.asked == ["first", "longer", "long", "short"] and started.done() == (4, 4)
    assert codes["short_2"].cubin == codes["short"].cubin and codes["short_2"].location == "model.py:3:0"


def test_kernels_are_compiled_beside_each_other(triton, monkeypatch):
    monkeypatch.setattr(parallel, "processors", lambda: 3)
    started = start_compiling([kernel(name) for name in "abcde"], 90)
    while len(triton.asked) < 3:
        assert triton.begun.wait(60)
    assert started.done() == (0, 5) and len(threads._running) == 3
    triton.may_go.set()
    assert sorted(started.result()) == list("abcde") and len(triton.asked) == 5


def test_what_is_abandoned_is_not_begun(triton, monkeypatch):
    monkeypatch.setattr(parallel, "processors", lambda: 1)
    started = start_compiling([kernel("first")], 90)
    assert triton.begun.wait(60)
    started.add([kernel("a"), kernel("b")])
    started.abandon()
    triton.may_go.set()
    with threads._changed:
        assert threads._changed.wait_for(lambda: not threads._running, 60)
    assert triton.asked == ["first"]


def test_a_fork_waits_for_what_was_added_alone(triton):
    """Not for kernels that may still come: the thread that would add them is the one that forks."""
    triton.may_go.set()
    started = start_compiling([kernel("a")], 90)
    if (child := os.fork()) == 0:
        os._exit(0 if started.done() == (1, 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
    started.add([kernel("b")])
    assert set(started.result()) == {"a", "b"}


def test_failures_are_told_or_raised_and_end_nothing_else(triton):
    triton.bad = {"a": CompilerError("of one"), "b": ValueError("of the compiler")}
    triton.may_go.set()
    refused: dict[str, Exception] = {}
    assert set(compile_kernels([kernel("a"), kernel("c")], 90, refuse=refused.__setitem__)) == {"c"}
    assert refused == {"a": triton.bad["a"]}
    with pytest.raises(ValueError, match="of the compiler"):
        compile_kernels([kernel("c"), kernel("b")], 90, refuse=refused.__setitem__)


def test_a_cache_that_fails_is_no_hang(triton):
    class Broken:
        def find(self, keys):
            raise OSError("gone")

    triton.may_go.set()
    with pytest.raises(OSError, match="gone"):
        compile_kernels([kernel("a"), kernel("b")], 90, KernelCache(Broken()))


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_process_that_may_have_no_more_threads(triton, monkeypatch, allowed):
    """One thread does it all, or the one that asks."""
    begun, thread = [], threads.Thread

    class Limited(thread):
        def start(self):
            if len(begun) >= allowed:
                raise RuntimeError("can't start new thread")
            begun.append(self)
            super().start()

    monkeypatch.setattr(threads, "Thread", Limited)
    monkeypatch.setattr(parallel, "processors", lambda: 8)
    triton.may_go.set()
    started = start_compiling([kernel(name) for name in "abc"], 90)
    assert allowed or started.done() == (3, 3)
    assert set(started.result()) == {*"abc"} and len(begun) == allowed


def test_kernels_are_given_away_as_they_are_lowered():
    """The longest first, and each before the next is lowered; the program has them in its order."""

    def function(x):
        x = x.cumsum(0)
        for _ in range(30):
            x = (x * 1.1).sin()
        return x.softmax(-1).cumsum(0).amax(-1)

    module = program(function, torch.randn(40, 50))
    before = [f.attributes["sym_name"].value for f in functions(module) if kernel_op(f) is not None]
    told: list[TritonKernel] = []

    def made(kernels, launch):
        told.extend(kernels)
        return [replace(kernel, warps=1) for kernel in kernels]

    kernels = lower_kernels(module, made=made).kernels
    assert len(told) == len(before) > 2 and told[0].ttir == max((kernel.ttir for kernel in told), key=len)
    assert list(kernels) == before != [kernel.name for kernel in told]
    assert all(kernel.warps == 1 for kernel in kernels.values())
