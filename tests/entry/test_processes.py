"""Several threads, and processes made by fork."""

import os
import subprocess
import sys
import threading

import pytest
import torch

import bascule
from bascule import compile_graph
from bascule.options import Options


def graph(number):
    """A functional graph, different for each number, and its inputs."""

    def f(x, y):
        for _ in range(number):
            x = torch.ops.aten.add.Tensor(torch.ops.aten.mul.Tensor(x, y), y)
        return (torch.ops.aten.tanh.default(x),)

    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = [torch.randn(5, 7), torch.randn(5, 7)]
    return make_fx(f, tracing_mode="fake")(*inputs), inputs, f


def test_graphs_compiled_by_several_threads_at_once():
    cases = [graph(number) for number in range(1, 9)]
    outputs, failures = {}, []

    def work(number):
        gm, inputs, _ = cases[number]
        try:
            fake = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
            compiled = compile_graph(gm, fake, Options(on_error="raise"), name=f"thread{number}")
            outputs[number] = compiled(list(inputs))
        except Exception as error:  # handed to the main thread, which fails the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for number, (_, inputs, f) in enumerate(cases):
        torch.testing.assert_close(outputs[number], f(*inputs))
    assert bascule.counters()["graphs"] == {"compiled": len(cases)}


def test_two_threads_through_torch_compile():
    results = {}
    # PyTorch's look-up of a backend by name is not for several threads: it is done here.
    functions = {
        scale: torch.compile(
            lambda x, scale=scale: torch.sin(x) * scale, backend="bascule", options={"on_error": "raise"}
        )
        for scale in (2.0, 3.0)
    }

    def work(scale):
        results[scale] = functions[scale](torch.arange(6.0))

    threads = [threading.Thread(target=work, args=(scale,)) for scale in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for scale in (2.0, 3.0):
        torch.testing.assert_close(results[scale], torch.sin(torch.arange(6.0)) * scale)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_compiled_code_runs_and_compiles_after_a_fork():
    def f(x):
        return torch.softmax(x, -1)

    compiled = torch.compile(f, backend="bascule", options={"on_error": "raise"})
    x = torch.randn(400, 900)  # large enough for both threads
    expected, few = compiled(x), x[:4]
    cosines = torch.cos(few)
    child = os.fork()
    if child == 0:
        # OpenMP's pool does not survive a fork: what we compiled must not ask for it. No pytest from here on.
        status = 1
        try:
            again = torch.compile(lambda x: torch.cos(x), backend="bascule", options={"on_error": "raise"})
            # Eager operators that use OpenMP would hang here themselves: compare few elements, with results made before.
            same = torch.equal(compiled(x)[:4], expected[:4]) and (again(few) - cosines).abs().max().item() < 1e-6
            status = 0 if same else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    torch.testing.assert_close(compiled(x), expected)


DAEMON = """
import os
import torch

for descriptor in {closed}:
    os.close(descriptor)
got = torch.compile(lambda x: x.sin() * {factor} + 7, backend="bascule", options={{"on_error": "raise"}})(torch.ones(3))
os._exit(0 if torch.allclose(got, torch.ones(3).sin() * {factor} + 7) else 1)
"""


@pytest.mark.parametrize("closed", [(0, 1, 2), (2,), (0,)])
def test_a_daemon_without_standard_streams_compiles(closed):
    """A file that LLVM opens in the place of one of these is never closed."""
    text = DAEMON.format(closed=closed, factor=2 + len(closed))
    assert subprocess.run([sys.executable, "-c", text], timeout=120, check=False).returncode == 0


def test_threads_that_ask_for_the_backend_first_at_once():
    code = """if True:
        import threading
        import torch

        barrier, errors = threading.Barrier(16), []

        def ask():
            barrier.wait()
            try:
                torch.compile(lambda x: x * 2, backend="bascule")
            except BaseException as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
