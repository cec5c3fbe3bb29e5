"""Machine code that threads still make when a compile returns: failures come at the first call, and the process ends in order."""

import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch
from bascule.lowering.cpu.jit.machine_code import MachineCode

import bascule
from bascule.compat.versions import internals
from bascule.compiled.compiled_graph import CompiledGraph
from bascule.compiled.deferred import FinishedAtFirstCall
from bascule.errors import CompilerError, FallbackWarning

COMPILES_ONLY = """
import torch
from bascule.compiler.compile_graph import compile_graph
from bascule.frontend.aot.retrace import decomposed
from bascule.options import make_options
from torch.fx.experimental.proxy_tensor import make_fx
from torch._subclasses import FakeTensorMode

x = FakeTensorMode().from_tensor(torch.randn(64, 32))
gm = make_fx(lambda x: (torch.softmax(x, -1).sin().sum(0), x.cumsum(1)))(x)
compile_graph(gm, [x], make_options(None, {"on_error": "raise"}))
print("compiled")
"""


def function(x, w):
    y = torch.softmax(x, -1) @ w
    return y.relu() + x.sum(), x * 2


def inputs():
    return torch.randn(6, 8), torch.randn(8, 8)


@pytest.fixture
def llvm_fails(monkeypatch):
    """MLIR refuses modules whose text has `part` in it, or all of them."""

    def failing(part: bytes = b""):
        of = MachineCode.of

        def refuse(bytecode, called):
            if part in bytecode:
                raise CompilerError("not for this machine")
            return of(bytecode, called)

        monkeypatch.setattr(MachineCode, "of", staticmethod(refuse))

    return failing


def test_one_kernel_fails_late(llvm_fails):
    llvm_fails(b"amax")
    before = bascule.counters().get("kernels", {}).get("refused", 0)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        got = torch.compile(function, backend="bascule")(*(given := inputs()))
    torch.testing.assert_close(got, function(*given))
    (told,) = [str(w.message) for w in caught if issubclass(w.category, FallbackWarning)]
    assert "amax" in told and "not for this machine" in told
    assert bascule.counters().get("kernels", {}).get("refused", 0) == before + 1


def test_all_kernels_fail_late(llvm_fails):
    llvm_fails()
    with pytest.warns(FallbackWarning, match="not for this machine"), torch.no_grad():
        compiled = torch.compile(function, backend="bascule")
        torch.testing.assert_close(compiled(*(given := inputs())), function(*given))
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given), function(*given))  # and again, without a warning


def test_the_user_may_ask_for_the_error(llvm_fails):
    llvm_fails()
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    with pytest.raises(CompilerError, match=r"(?s)'jit' failed on .*not for this machine"), torch.no_grad():
        compiled(*inputs())


def test_two_threads_call_first():
    made, both = [], threading.Barrier(2)

    def finish():
        time.sleep(0.05)  # for as long as the other thread needs to come here too
        made.append(1)
        return lambda args: [args[0] + 1]

    call, found = FinishedAtFirstCall(finish), []

    def run(number):
        both.wait(60)
        found.extend(call([number]))

    workers = [threading.Thread(target=run, args=[number]) for number in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(found) == [2, 3] and made == [1]


def test_what_runs_without_a_wait():
    def run(args):
        return [args[0] + 1]

    later = FinishedAtFirstCall(lambda: run)
    graph = CompiledGraph(later, finish=later.finished)
    assert graph([1]) == [2] and graph.finished() is run
    assert CompiledGraph(run).finished() is run


@pytest.mark.skipif(not internals().direct_calls, reason="calls are direct on versions of PyTorch that were read")
@pytest.mark.parametrize("cache", [True, False])
def test_a_direct_call_goes_past_the_wait(monkeypatch, tmp_path, cache):
    """Forward and backward, whether what is compiled is kept or not."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: (x.sin() * w).sum(0), backend="bascule", options={"cache": cache})
    x, w = torch.randn(4, 3), torch.randn(4, 3, requires_grad=True)
    waits = []
    call, whole = FinishedAtFirstCall.__call__, CompiledGraph.__call__
    monkeypatch.setattr(FinishedAtFirstCall, "__call__", lambda self, args: waits.append(1) or call(self, args))
    monkeypatch.setattr(CompiledGraph, "__call__", lambda self, args: waits.append(1) or whole(self, args))
    for _ in range(4):
        compiled(x, w).backward(torch.ones(3))
    assert waits
    waits.clear()
    compiled(x, w).backward(torch.ones(3))
    torch.testing.assert_close(w.grad, 5 * x.sin())
    assert not waits


def test_a_process_that_never_calls_ends():
    done = subprocess.run([sys.executable, "-c", COMPILES_ONLY], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "compiled\n", done.stderr
