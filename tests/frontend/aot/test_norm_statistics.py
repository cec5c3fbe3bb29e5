"""Normalizations of 16 bits with parameters of f32 on a CPU: gradients as near to f64 as eager's, also where means are large."""

import pytest
import torch
from torch import nn

NORMS = {
    "batch": (lambda: nn.BatchNorm2d(8), (4, 8, 6, 6)),
    "batch of rows": (lambda: nn.BatchNorm1d(8), (64, 8)),
    "batch without running statistics": (lambda: nn.BatchNorm2d(8, track_running_stats=False), (4, 8, 6, 6)),
    "batch without weights": (lambda: nn.BatchNorm2d(8, affine=False), (4, 8, 6, 6)),
    "instance": (lambda: nn.InstanceNorm2d(8, affine=True), (4, 8, 6, 6)),
    "instance with running statistics": (lambda: nn.InstanceNorm2d(8, track_running_stats=True), (4, 8, 6, 6)),
    "layer": (lambda: nn.LayerNorm(64), (20, 64)),
    "group": (lambda: nn.GroupNorm(2, 8), (4, 8, 6, 6)),
    "rms": (lambda: nn.RMSNorm(64), (20, 64)),
}
MEAN = 8.0  # in deviations
TIMES = 1.3  # eager's error, over all seeds


def results(call, norm, x, dtype):
    """The result of a step, its gradients, running statistics, and the sums of the input's gradient over places, zero but for rounding."""
    norm.zero_grad()
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", dtype, enabled=x.dtype == dtype):
        y = call(x)
    weights = (97 * torch.arange(y.numel(), dtype=torch.float64).sin()).cos().view(y.shape)
    (y.double() * weights).sum().backward()
    parameters = {name: p.grad for name, p in norm.named_parameters()}
    running = {name: b.clone() for name, b in norm.named_buffers() if b.is_floating_point()}
    sums = x.grad.double().sum([0, *range(2, x.ndim)])
    return {"result": y.detach(), "input": x.grad, "sums": sums, **parameters, **running}


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_gradients_are_as_near_to_f64_as_those_of_eager(name, dtype):
    torch.manual_seed(0)
    make, shape = NORMS[name]
    eager, exact, mine = make(), make().double(), make()
    compiled = torch.compile(mine, backend="bascule", options={"on_error": "raise"})
    squares = dict[str, list[float]]()
    for _ in range(4):
        x = (torch.randn(shape) + MEAN).to(dtype)
        true = results(exact, exact, x.double(), dtype)
        for place, found in enumerate((results(eager, eager, x, dtype), results(compiled, mine, x, dtype))):
            for what, value in found.items():
                squares.setdefault(what, [0.0, 0.0])[place] += (value.double() - true[what]).square().mean().item()
    for what, (of_eager, of_mine) in squares.items():
        assert of_mine**0.5 <= TIMES * of_eager**0.5 + 1e-7, what


@pytest.mark.parametrize("parameters", (torch.float32, torch.bfloat16), ids=str)
def test_saved_statistics_have_the_dtypes_of_eager(parameters):
    """A program may call the operators itself."""
    torch.manual_seed(0)
    w, b = torch.rand(6).to(parameters), torch.rand(6).to(parameters)
    x = (torch.randn(5, 6) + MEAN).bfloat16()

    def f(x, w, b):
        rows = torch.native_layer_norm(x, [6], w, b, 1e-5)
        groups = torch.native_group_norm(x[:, :, None], w, b, 5, 6, 1, 2, 1e-5)
        channels = torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)
        return *rows, *groups, *channels

    for mine, eager in zip(torch.compile(f, backend="bascule")(x, w, b), f(x, w, b)):
        torch.testing.assert_close(mine, eager, rtol=1.6e-2, atol=0.02)
