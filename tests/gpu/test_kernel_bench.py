"""`bascule bench` on a GPU: kernels of Triton timed by events, on sizes that are dynamic, and compared with the interpreter."""

import torch

from bascule.kernel_bench.bench import Asked, bench
from bascule.kernel_bench.limits import Gpu, Rates


def step(x, table, places):
    y = torch.nn.functional.layer_norm(x.exp(), (x.shape[-1],))
    return torch.zeros_like(x).index_add(0, places, y).sum() + table[places].sum()


def test_the_kernels_of_a_step(tmp_path):
    torch.compiler.reset()
    torch.manual_seed(0)
    x, table = torch.randn(64, 256, device="cuda", requires_grad=True), torch.randn(64, 256, device="cuda")
    options = {"dump": str(tmp_path), "cache": False, "on_error": "raise"}
    compiled = torch.compile(step, backend="bascule", options=options, dynamic=True)
    compiled(x, table, torch.randint(0, 64, (64,), device="cuda")).backward()
    told = bench(tmp_path, Asked(repeat=5, check=True))
    kernels = [kernel for graph in told["graphs"] for kernel in graph["kernels"]]
    assert len(told["graphs"]) == 2
    assert [kernel["name"] for kernel in kernels if not kernel["measured"]["check"]["match"]] == []
    assert all(kernel["measured"]["min_us"] >= kernel["measured"]["limit_us"] for kernel in kernels)


def test_the_driver_tells_what_limits_are_made_of():
    gpu = Gpu.at(torch.cuda.current_device())
    assert gpu.memory > 1e11 and gpu.units > 1e9, gpu
    rates = Rates.of("cuda", gpu=gpu)
    assert 0.5 * gpu.memory < rates.memory < gpu.memory
    assert rates.machine == "h200" or gpu.name in rates.machine
    if "H200" in gpu.name:
        assert rates.machine == "h200"
