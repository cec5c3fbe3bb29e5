"""A tile's reads for after its products stand after them, whichever operand a user writes first: their sums fill the registers."""

import re

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import ptxas
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from tests.lowering.triton.check import lowered
from tests.lowering.triton.kernels.test_contractions import check, matrices
from tests.lowering.triton.kernels.test_contractions import run as computed
from tests.targets.test_cuda_pipelines import run


def gradient(h):
    s = torch.sigmoid(h.float())
    return s * (1 + h.float() * (1 - s))


PRODUCTS = {
    "gradient first": lambda x, w, h: (gradient(h) * (x @ w).float()).to(h.dtype),
    "gradient last": lambda x, w, h: ((x @ w).float() * gradient(h)).to(h.dtype),
    "residual first": lambda x, w, h: F.silu(h) + x @ w,
    "scaled": lambda x, w, h: torch.where(h > 0, h.exp(), -h) * F.gelu(x @ w),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_of_a_product(name):
    with FakeTensorMode():
        sizes = (8192, 1024), (1024, 4096), (8192, 4096)
        text = run(PRODUCTS[name], [torch.empty(size, dtype=torch.bfloat16, device="cuda") for size in sizes])
    (kernel,) = kernels_of(text)
    assert_late(kernel.ttir)
    assert ", 0 bytes spill stores" in ptxas.log(compile_kernel(kernel, 90).asm["ptx"], 90)


def kernels_of(text):
    with context(), ir.Location.unknown():
        return list(lowered(ir.Module.parse(text)).values())


def assert_late(ttir):
    """No tile of results is loaded before the last product. Factors are smaller, or come by descriptors."""
    *_, last = re.finditer(r'tt\.dot"?.*-> tensor<(\d+x\d+)xf32>', ttir)
    loads = re.finditer(rf'"?tt\.load"?.*-> tensor<{last[1]}x(bf16|f32)>', ttir)
    assert all(load.start() > last.start() for load in loads)
    assert "tt.load" in ttir[last.start() :]


def test_memory_that_is_written():
    """A read gives the number that was there before the result."""

    def function(x, w, h):
        old = torch.tanh(h)
        h.copy_(x @ w)
        return old * (x @ w)

    x, w, h = matrices(torch.bfloat16, (40, 64), (64, 72), (40, 72))
    wide = h.double()
    found, _ = computed(function, x, w, h)
    check(h, x.double() @ w.double(), torch.bfloat16, 64)
    check(found, torch.tanh(wide) * (x.double() @ w.double()), torch.bfloat16, 3 * 64)
