"""One convolution on a GPU, forward and with both gradients: PyTorch's (cuDNN's) and Bascule, results compared before anything is timed."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from .kernels import gpu_ms

HOST = 0.6  # milliseconds that issuing a backward takes, at most
Check = Callable[[Tensor, Tensor], None]  # (found, in f64): raises where they differ


def compared(
    run: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    check: Check,
    scratch: Tensor,
    forward: Callable[[], AbstractContextManager] = nullcontext,
    **options: object,
) -> dict[str, float]:
    """Milliseconds of `run` of `inputs`, and of it with the backward (`f + b`); `ratio`: of these eager's over Bascule's. The forward alone
    runs in `forward()`. `options`: of the compilation."""
    torch._dynamo.reset()
    exact = [t.detach().double().requires_grad_() for t in inputs]
    seed = torch.randn_like(run(*inputs))
    right = [run(*exact), *torch.autograd.grad(run(*exact), exact, seed.double())]
    compiled = torch.compile(run, backend="bascule", dynamic=False, options={"on_error": "raise", **options})
    row: dict[str, float] = {}
    for name, call in (("eager", run), ("bascule", compiled)):
        found = [call(*inputs), *torch.autograd.grad(call(*inputs), inputs, seed)]
        for got, want in zip(found, right, strict=True):
            check(got, want)
        with forward():
            row[name] = gpu_ms(lambda call=call: call(*inputs), scratch, HOST)
        row[f"{name} f + b"] = gpu_ms(lambda call=call: torch.autograd.grad(call(*inputs), inputs, seed), scratch, HOST)
    row["ratio"] = row["eager f + b"] / row["bascule f + b"]
    return row
