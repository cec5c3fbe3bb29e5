"""Programs ahead of time, frozen weights and measured schedules on a GPU."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import bascule


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(64, 48), nn.LayerNorm(48)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return torch.softmax(nn.functional.gelu(self.norm(self.linear(x))), -1)


class Network(nn.Module):
    """Convolutions with batch norms."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.second, self.other = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        for norm in (self.norm, self.other):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.3, 3)

    def forward(self, x):
        return torch.relu(self.other(self.second(torch.relu(self.norm(self.first(x)))))).mean((2, 3))


ROWS = Dim("rows", min=2, max=4000)

RUN = """
import sys

class Blocked:
    NAMES = ("torch._dynamo", "torch._inductor", "torch_mlir", "bascule.dialect", "bascule.frontend", "bascule.lowering")

    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in self.NAMES):
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Blocked())
sys.modules["triton"] = None  # as if it were not installed: PyTorch looks
import torch, bascule
given = torch.load(sys.argv[2])
program = bascule.aot_load(sys.argv[1], weights=given["weights"])
torch.save([program(x) for x in given["inputs"]] + [program.weights["calls"]], sys.argv[2])
"""


@pytest.mark.parametrize("weights", ["inside", "reference"])
def test_a_package_in_a_process_without_a_compiler(tmp_path, weights):
    module = Model().cuda()
    inputs = [torch.randn(rows, 64, device="cuda") for rows in (5, 16, 3001)]
    path, values = tmp_path / "program", tmp_path / "values.pt"
    bascule.aot_compile(export(module, (inputs[0],), dynamic_shapes={"x": {0: ROWS}}), path, weights=weights)
    torch.save({"weights": module.state_dict() if weights == "reference" else None, "inputs": inputs}, values)
    done = subprocess.run([sys.executable, "-c", RUN, path, values], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    *got, calls = torch.load(values)
    assert calls.item() == 3
    for x, y in zip(inputs, got, strict=True):
        torch.testing.assert_close(y, module(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_frozen_weights(memory_format):
    torch.backends.cudnn.allow_tf32 = False
    try:
        module = Network().cuda().eval().to(memory_format=memory_format)
        x = torch.randn(4, 8, 20, 20, device="cuda").to(memory_format=memory_format)
        call = torch.compile(module, backend="bascule", options={"freezing": True, "on_error": "raise"})
        want = module(x)
        for _ in range(2):
            torch.testing.assert_close(call(x), want, rtol=1e-4, atol=1e-4)
        assert bascule.counters()["freezing"]["folded into convolutions"]
    finally:
        torch.backends.cudnn.allow_tf32 = True


@torch.no_grad()
def test_casts_of_frozen_weights_are_done_once():
    module, x = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).cuda(), torch.randn(16, 64).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        call = torch.compile(module, backend="bascule", options={"freezing": True, "on_error": "raise"})
        torch.testing.assert_close(call(x), module(x), rtol=2e-2, atol=2e-2)
    assert bascule.counters()["freezing"]["constants folded"] >= 4


def test_schedules_are_measured(monkeypatch, tmp_path):
    """The second time nothing is measured: what was found is on disk."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))

    def f(x, y):
        return torch.softmax(x, -1) + y.t(), x.sum(0)

    x, y = torch.randn(2, 512, 512, device="cuda")
    told = [bascule.explain(f, x, y, options={"max_autotune": True}) for _ in range(2)]
    assert all("schedules)" in str(one) for one in told)
    call = torch.compile(f, backend="bascule", options={"max_autotune": True, "on_error": "raise"})
    torch.testing.assert_close(call(x, y), f(x, y), rtol=1e-4, atol=1e-4)


def test_small_arenas_on_two_streams():
    """Each stream has an arena of its own, kept between calls."""

    def function(x, w, v):
        return torch.softmax(torch.relu(x @ w.t()) @ v.t(), -1)

    w, v = torch.randn(512, 256, device="cuda"), torch.randn(256, 512, device="cuda")
    compiled = torch.compile(function, backend="bascule", dynamic=False)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    given = [torch.randn(3, 256, device="cuda") for _ in range(64)]
    compiled(given[0], w, v)
    torch.cuda.synchronize()
    got = []
    for number, x in enumerate(given):
        with torch.cuda.stream(streams[number % 2]):
            got.append(compiled(x, w, v))
    torch.cuda.synchronize()
    for mine, x in zip(got, given, strict=True):
        torch.testing.assert_close(mine, function(x, w, v), rtol=1e-3, atol=1e-5)


def test_one_token():
    """Small products of weights, a kernel between them and attention; calls after the first, in the same arena."""

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def function(x, wq, wk, wv, cos, sin):
        q, k, v = (x @ w.t() for w in (wq, wk, wv))
        q = rotate(q.view(1, 8, 1, 64), cos, sin)
        k = rotate(k.view(1, 4, 1, 64), cos, sin)
        k, v = (y[:, :, None].expand(1, 4, 2, 1, 64).reshape(1, 8, 1, 64) for y in (k, v.view(1, 4, 1, 64)))
        return nn.functional.scaled_dot_product_attention(q, k, v)

    weights = [torch.randn(rows, 256, device="cuda", dtype=torch.bfloat16) / 16 for rows in (512, 256, 256)]
    compiled = torch.compile(function, backend="bascule", dynamic=False)
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(1, 256, device="cuda", dtype=torch.bfloat16)
            angles = [torch.randn(1, 1, 1, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
            got = compiled(x, *weights, *angles)
            wide = [t.float() for t in (x, *weights, *angles)]
            torch.testing.assert_close(got.float(), function(*wide), rtol=5e-2, atol=5e-2)


def test_temporaries_of_another_time_do_not_raise_the_peak():
    """An arena of some MiB is there after the 4 GiB are freed, not beside them."""
    rows = 32768

    def function(x, w, y, v):
        wide = (x @ w).sin().amax(0)
        for _ in range(6):
            y = (y @ v).cos() @ v
        return wide, y.amax(0)

    sizes = [(rows, 16), (16, rows), (512, 512), (512, 512)]
    inputs = [torch.randn(size, device="cuda") / size[0] ** 0.5 for size in sizes]
    call = torch.compile(function, backend="bascule", options={"on_error": "raise", "cache": False})
    found = call(*inputs)
    for x, y in zip(found, function(*map(torch.Tensor.double, inputs)), strict=True):
        torch.testing.assert_close(x.double(), y, rtol=1e-4, atol=1e-4)
    del found, x, y
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call(*inputs)
    assert torch.cuda.max_memory_allocated() - before <= 4 * rows * rows + (1 << 18)
