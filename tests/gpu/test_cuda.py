"""`torch.compile(..., backend="bascule")` on a GPU, against eager there."""

import gc
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from torch.nn import functional as F

import bascule
from bascule.errors import FallbackWarning
from tests.targets.target_cases import CASES, DYNAMIC, check, check_misaligned, gpt2, training_step

OPTIONS = {"on_error": "raise"}


def compiled(function, **kwargs):
    return torch.compile(function, backend="bascule", options=OPTIONS, **kwargs)


def randn(*sizes, **kwargs):
    return torch.randn(*sizes, device="cuda", **kwargs)


def on_gpu(inputs):
    return [x.detach().cuda().requires_grad_(x.requires_grad) for x in inputs]


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    function, inputs = CASES[name]
    check(name, compiled(function), on_gpu(inputs))
    assert bascule.counters()["kernels"]["launches"]


@pytest.mark.parametrize("name", DYNAMIC)
def test_of_dynamic_sizes(name):
    function, inputs = CASES[name]
    check(name, compiled(function, dynamic=True), on_gpu(inputs))


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv", "erfcx", "ndtri", "modified_bessel_k0", "log_ndtr"])
def test_special_functions_of_f64_are_the_cpus(name):
    """At subnormals, next to 1 and near zeros too: libdevice's logarithms and sines inside of the same formulas."""
    function = getattr(torch, name, None) or getattr(torch.special, name)
    ends = [5e-324, 5e-309, 1e-300, 1e-9, 0.5, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 1.46, 1.5, 2.5, 7.25, 88.5, 1e300]
    x = torch.tensor([*ends, *torch.linspace(0.01, 30, 300).tolist()], dtype=torch.float64)
    x = torch.cat([x, -x])
    wanted = compiled(function)(x)
    torch.testing.assert_close(compiled(function)(x.cuda()).cpu(), wanted, rtol=1e-14, atol=4e-16, equal_nan=True)


def test_powers_have_the_exponent_of_f64():
    x = torch.exp((torch.rand(3000) - 0.5) * 100)
    got, exact = compiled(lambda x: x**1.7)(x.cuda()).cpu(), x.double() ** 1.7
    seen = (exact > 1e-37) & (exact < 3e38)
    torch.testing.assert_close(got.double()[seen], exact[seen], rtol=2e-7, atol=0)


def test_running_log_sums_begin_with_positive_zero():
    x = torch.tensor([[-0.0, -0.0, 3.0]])
    assert torch.equal(compiled(lambda x: x.logcumsumexp(1))(x.cuda()).signbit().cpu(), x.logcumsumexp(1).signbit())


def test_one_compile_serves_many_sizes():
    call = compiled(lambda x: torch.softmax(x, -1) * x.shape[0], dynamic=True)
    for rows, columns in ((2, 3), (64, 33), (5, 5000), (700, 1024), (0, 7)):
        x = randn(rows, columns)
        torch.testing.assert_close(call(x), torch.softmax(x, -1) * rows)
    assert bascule.counters()["graphs"]["compiled"] <= 2


def test_a_training_step():
    model, inputs = gpt2()
    model, inputs = model.cuda(), {name: x.cuda() for name, x in inputs.items()}
    want = training_step(model, model, inputs)
    got = training_step(model, compiled(model), inputs)
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-5)


def test_the_gradient_of_a_small_pooling():
    # ptxas of CUDA 12.8 loses a constant of this kernel unless it is kept from it.
    x = torch.randn(1, 2, 3, 6, 5, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def pool(x):
        return F.max_pool3d(x, 3, stride=2, dilation=(1, 2, 1), ceil_mode=True)

    gradients = [
        torch.autograd.grad(call(x), x, torch.ones(1, 2, 1, 2, 2, device="cuda").bfloat16())[0]
        for call in (pool, compiled(pool))
    ]
    assert torch.equal(*gradients) and gradients[0].any()


def test_an_index_out_of_range_ends_with_the_line(tmp_path):
    """In a process of its own: a device-side assertion leaves a CUDA context that is good for nothing."""
    script = tmp_path / "rows.py"
    script.write_text(
        "import sys, torch\n"
        "def rows(i, w):\n"
        "    return w[i] * 2\n"
        "call = torch.compile(rows, backend='bascule')\n"
        "i, w = torch.arange(12, device='cuda'), torch.randn(30, 8, device='cuda')\n"
        "assert torch.equal(call(i - 30, w), rows(i, w))\n"
        "i[3] = int(sys.argv[1])\n"
        "call(i, w)\n"
        "torch.cuda.synchronize()\n"
    )
    for bad in (30, -31, 1 << 33):
        ended = subprocess.run([sys.executable, script, str(bad)], capture_output=True, text=True)
        assert ended.returncode and "rows.py:3" in ended.stderr, ended.stderr[-2000:]
        assert "an index is out of bounds for a dimension of 30 elements" in ended.stderr


def test_dropout_follows_the_seed():
    call = compiled(lambda x: F.dropout(x, 0.25))
    x = torch.ones(1000, 1000, device="cuda")
    torch.manual_seed(5)
    first, second = call(x), call(x)
    torch.manual_seed(5)
    assert torch.equal(call(x), first) and not torch.equal(first, second)
    assert abs((first == 0).float().mean().item() - 0.25) < 0.005


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("shift", [1, 3])
def test_inputs_that_are_not_aligned(dtype, shift):
    check_misaligned(compiled, shift, dtype, "cuda")


def test_numbers_on_the_cpu_beside_tensors_on_the_gpu():
    call = compiled(lambda x, scale: x * scale + 1)
    x = randn(40, 8)
    for scale in (torch.tensor(2.5), torch.tensor(-1.0)):
        torch.testing.assert_close(call(x, scale), x * scale + 1)


def test_a_result_on_the_cpu():
    x = randn(40, 8)
    y, host = compiled(lambda x: (x * 2, (x + 1).cpu()))(x)
    assert y.is_cuda and not host.is_cuda
    assert torch.equal(host, (x + 1).cpu())


def test_constants_of_the_graph():
    table = torch.tensor([3.0, 1.0, 2.0])
    x = randn(5, 3)
    assert torch.equal(compiled(lambda x: x * table.cuda())(x), x * table.cuda())


def test_the_stream_that_is_current():
    """The kernels wait for what is on the stream before them, and not on another."""
    call = compiled(lambda x: x * 2 + 1)
    x = torch.zeros(1 << 22, device="cuda")
    call(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(3)
        y = call(x)
    stream.synchronize()
    assert (y == 7).all()


def test_another_device_than_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.randn(50, 50, device="cuda:1")
    with torch.cuda.device(0):
        y = compiled(lambda x: torch.softmax(x, -1).sum(0))(x)
    assert y.device == x.device
    torch.testing.assert_close(y, torch.softmax(x, -1).sum(0))


def test_two_devices_are_refused():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x, y = torch.randn(5, device="cuda:0"), torch.randn(5, device="cuda:1")
    with pytest.raises(bascule.UnsupportedError, match="two GPUs"):
        compiled(lambda x, y: (x + 1, y + 1))(x, y)


def test_more_elements_than_32_bits_count():
    x = torch.ones((1 << 31) + 5, dtype=torch.int8, device="cuda")
    y = compiled(lambda x: x + 1)(x)
    assert y[-1] == 2 and y[0] == 2 and (y == 2).all()


def test_no_room_for_the_arena():
    torch.mm(*randn(2, 8, 8))  # cuBLAS takes a workspace at its first product, and keeps it
    x = randn(4096, 4096)
    call = compiled(lambda x: (x + 1) @ (x.t() * 2))
    gc.collect()
    torch.cuda.empty_cache()
    total, filler = torch.cuda.get_device_properties(0).total_memory, []
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (32 << 20)) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):  # what other tests have left in parts of blocks is no room either
            while True:
                filler.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))
        with pytest.raises(torch.OutOfMemoryError, match=r"graph\d+_inference: no room for its arena of [\d,]+ bytes"):
            call(x)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        filler.clear()
    held = torch.cuda.memory_allocated()
    torch.testing.assert_close(call(x), (x + 1) @ (x.t() * 2), rtol=1e-4, atol=1e-2)
    assert torch.cuda.memory_allocated() == held, "nothing of a call stays"


def test_threads():
    call = compiled(lambda x: torch.softmax(x * 2, -1) @ x)
    inputs = [randn(64, 64) for _ in range(8)]
    call(inputs[0])
    got = [None] * len(inputs)

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                got[number] = call(inputs[number])
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(inputs))]
    torch.cuda.synchronize()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(inputs, got):
        torch.testing.assert_close(y, torch.softmax(x * 2, -1) @ x, rtol=1e-4, atol=1e-4)


def test_a_kernel_that_does_not_compile(monkeypatch):
    """The graph runs as ATen, with one warning that names the reproducer."""
    from bascule.lowering.triton.compile import parallel

    from bascule.errors import CompilerError

    def refuse(*args, **kwargs):
        raise CompilerError("Triton does not compile it")

    monkeypatch.setattr(parallel, "Compiling", refuse)
    x = randn(20, 20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(torch.compile(lambda x: x.sin() + 1, backend="bascule")(x), x.sin() + 1)
    (warning,) = [w for w in caught if issubclass(w.category, FallbackWarning)]
    assert "Triton does not compile it" in str(warning.message) and ".mlir" in str(warning.message)


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_kernel_of_a_graph_that_does_not_compile(monkeypatch, dynamic):
    """Its operators run in PyTorch, on the device, between the kernels that did."""
    from bascule.lowering.triton.kernels.kernel import KernelFunction

    working = KernelFunction.emit

    def emit(self, *args):
        made = working(self, *args)
        if "amax" in self.name:
            raise ValueError("broken on purpose")
        return made

    monkeypatch.setattr(KernelFunction, "emit", emit)

    def function(x, w):
        return (torch.softmax(x, -1) @ w).relu() + x.sum()

    x, w = randn(40, 64), randn(64, 64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = torch.compile(function, backend="bascule", dynamic=dynamic)(x, w)
    torch.testing.assert_close(got, function(x, w), rtol=1e-4, atol=1e-4)
    (warning,) = [w for w in caught if issubclass(w.category, FallbackWarning)]
    assert "broken on purpose" in str(warning.message) and ".mlir" in str(warning.message)
    counted = bascule.counters()
    assert counted["graphs"] == {"compiled": 1} and counted["kernels"]["refused"] == 1


def test_deterministic_algorithms():
    """Sums of floats at places from data are the same in each run; what PyTorch has no such kernel for, it refuses."""
    x, i, y = torch.zeros(50, 64, device="cuda"), torch.randint(0, 50, (20000,), device="cuda"), randn(20000, 64)
    torch.use_deterministic_algorithms(True)
    try:
        call = compiled(lambda x, i, y: x.index_add(0, i, y) + 1)
        first = call(x, i, y)
        assert all(torch.equal(call(x, i, y), first) for _ in range(5))
        assert not bascule.counters()["aten"]  # rows are sums of segments
        places = torch.arange(64, device="cuda")
        for put in (torch.put, compiled(lambda x, i, y: torch.put(x, i, y))):
            with pytest.raises(RuntimeError, match="deterministic"):
                put(x, places, y[0])
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(first, x.index_add(0, i, y) + 1, rtol=1e-4, atol=1e-3)


def test_the_target_is_the_tensors():
    with pytest.raises(bascule.UnsupportedError, match="device 'cuda:0'"):
        torch.compile(lambda x: x + 1, backend="bascule", options={**OPTIONS, "target": "cpu"})(randn(4))
