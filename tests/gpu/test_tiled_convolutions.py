"""Convolutions whose windows tile their image, as products of cuBLAS's: distances from f64 as eager's, and no call of cuDNN's."""

import pytest
import torch
from torch.nn import functional as F

import bascule

CASES = {
    "patches": ((8, 3, 224, 224), (768, 3, 16, 16), False),
    "rows that are padded, places left over": ((8, 3, 230, 227), (128, 3, 14, 14), False),
    "a step between stages": ((8, 96, 56, 56), (192, 96, 2, 2), False),
    "transposed": ((8, 64, 28, 28), (64, 32, 2, 2), True),
}


def trained(call, inputs, seed):
    y = call(*inputs)
    return [y, *torch.autograd.grad(y, inputs, seed)]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients(name, dtype, channels_last, monkeypatch):
    sizes, weight, transposed = CASES[name]
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch._dynamo.reset()
    torch.manual_seed(0)
    stride = weight[-1]

    def run(x, w, b):
        return (F.conv_transpose2d if transposed else F.conv2d)(x.sin(), w, b, stride=stride)

    inputs = [
        torch.randn(s, device="cuda", dtype=dtype) for s in (sizes, weight, weight[1:2] if transposed else weight[:1])
    ]
    if channels_last:
        inputs[:2] = [x.to(memory_format=torch.channels_last) for x in inputs[:2]]
    inputs = [x.requires_grad_() for x in inputs]
    seed = torch.randn_like(run(*inputs))
    exact = trained(run, [x.detach().double().requires_grad_() for x in inputs], seed.double())
    eager = trained(run, inputs, seed)
    call = torch.compile(run, backend="bascule", options={"on_error": "raise", "cache": False})
    found = trained(call, inputs, seed)
    assert not any("convolution" in operator for operator in bascule.counters().get("aten", {}))
    for got, of_eager, want in zip(found, eager, exact, strict=True):
        assert got.stride() == of_eager.stride()
        distance, known = ((each.double() - want).norm() / want.norm() for each in (got, of_eager))
        assert distance <= max(2 * known, 1e-6), (distance, known)
