"""Many threads, many calls: results stay right and memory does not grow."""

import gc
import os
import threading

import torch
from bascule.runtime import release_arenas
from harness import OPTIONS, compiled


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def layer(x, w):
    return torch.softmax((x @ w).sin() @ w, -1)


def test_ten_thousand_calls_keep_no_memory():
    torch._dynamo.reset()
    function = compiled(layer)
    x, w = torch.randn(64, 64), torch.randn(64, 64)

    def calls(number):
        for _ in range(number):
            function(x, w)
        gc.collect()
        return resident()

    before = calls(2000)
    assert calls(10_000) - before < 4 << 20


def test_training_calls_keep_no_memory():
    torch._dynamo.reset()
    function = compiled(layer)
    x, w = torch.randn(64, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True)

    def calls(number):
        for _ in range(number):
            torch.autograd.grad(function(x, w).square().sum(), (x, w))
        gc.collect()
        return resident()

    before = calls(300)
    assert calls(1500) - before < 4 << 20


def test_twenty_threads_compile_and_call():
    torch._dynamo.reset()
    release_arenas()
    torch._dynamo.lookup_backend("bascule")  # PyTorch's look-up by name is not for several threads
    failures = []

    def work(number):
        try:

            def scaled(x, w):
                return torch.softmax((x @ w) * number, -1) + number

            function = torch.compile(scaled, backend="bascule", options=OPTIONS)
            generator = torch.Generator().manual_seed(number)
            for _ in range(5):
                x, w = (torch.randn(8, 8, generator=generator) for _ in range(2))
                if not torch.allclose(function(x, w), scaled(x, w), atol=1e-5):
                    failures.append(f"thread {number}: other values")
        except Exception as error:  # handed to the main thread, which fails the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
