"""Functions with Triton kernels of the user's: plain ones, with autotuning and heuristics, and operators made of them."""

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def add_into(x, y, n, BLOCK: tl.constexpr):
    """x += y"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((128, 2), (1024, 4))]
tuned = triton.autotune(configs=CONFIGS, key=["n"])(scale)
chosen = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(min(args["n"], 512))})(scale)


@triton.jit
def row_sums(x, out, columns, stride, WIDTH: tl.constexpr, SQUARED: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, WIDTH)
    value = tl.load(x + row * stride + at, mask=at < columns, other=0.0)
    tl.store(out + row, tl.sum(value * value if SQUARED else value))


def scaled(x, factor):
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), factor, BLOCK=256)
    return out


def by_autotuning(x):
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), 0.5)
    return out


def by_heuristics(x):
    out = torch.empty_like(x)
    chosen[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), 0.5)
    return out


def sums(x, squared):
    out = x.new_empty(x.shape[0])
    row_sums[(x.shape[0],)](x, out, x.shape[1], x.stride(0), triton.next_power_of_2(x.shape[1]), squared)
    return out


def accumulated(x, y):
    total = x * 2  # an intermediate that the kernel writes to, and that is read before and after
    before = total.sum()
    add_into[(triton.cdiv(total.numel(), 256),)](total, y, total.numel(), BLOCK=256)
    return total.relu(), before


def accumulated_into_an_input(x, y):
    z = y.exp()
    add_into[(triton.cdiv(x.numel(), 256),)](x, z, x.numel(), BLOCK=256)
    return x.sum(0)


@triton_op("bascule_test::scaled", mutates_args={})
def scaled_op(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(scale)[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), factor, BLOCK=256)
    return out


def _keep(ctx, inputs, output):
    ctx.factor = inputs[1]


def _gradients(ctx, grad):
    return scaled_op(grad.contiguous(), ctx.factor), None


scaled_op.register_autograd(_gradients, setup_context=_keep)


@triton_op("bascule_test::add_into", mutates_args={"x"})
def add_into_op(x: torch.Tensor, y: torch.Tensor) -> None:
    wrap_triton(add_into)[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)


def with_gradients(x):
    return scaled_op(x.sin(), 2.5) * x


def writes_its_argument(x, y):
    z = x + 1
    add_into_op(z, y)
    add_into_op(x, z)
    return z * 2


CASES = {  # name -> function, number of tensors it takes
    "between kernels": (lambda x, y: scaled(x + y, 3.0).sin(), 2),
    "twice": (lambda x, y: scaled(scaled(x, 3.0) * y, -1.5), 2),
    "autotuned": (lambda x: by_autotuning(x.exp()) + 1, 1),
    "by heuristics": (lambda x: by_heuristics(x.exp()) + 1, 1),
    "both constants": (lambda x: sums(x * 2, True) - sums(x, False), 1),
    "written intermediate": (accumulated, 2),
    "written input": (accumulated_into_an_input, 2),
    "operator": (with_gradients, 1),
    "operator that writes its argument": (writes_its_argument, 2),
}


def check(call, name, sizes, device):
    """`call` does what the function does, to its arguments too."""
    function, count = CASES[name]
    inputs = [torch.randn(sizes, device=device) for _ in range(count)]
    results = []
    for one in (function, call):
        own = [x.clone() for x in inputs]
        results.append((one(*own), own))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def training_step(call, x):
    """The result for `x`, and the gradient of its squares' sum."""
    x = x.clone().requires_grad_()
    out = call(x)
    return out.detach(), *torch.autograd.grad(out.square().sum(), x)
