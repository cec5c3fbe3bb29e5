"""Copies of complex numbers, which kernels move as bits: of 128 as two words, in any order of the dims."""

from itertools import permutations

import pytest
import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.interpreter import plans

import bascule  # noqa: F401  (for the backend)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("order", [order for order in permutations(range(3)) if order != (0, 1, 2)], ids=str)
@pytest.mark.parametrize("sizes", [(5, 33, 3), (2, 7, 64)], ids=str)
def test_of_dims_in_another_order(order, sizes, dtype, monkeypatch):
    found, started = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, given: found.append(kernel) or started(kernel, given))
    x = torch.randn(sizes, dtype=dtype, generator=torch.Generator().manual_seed(0)).permute(order)
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret"}
    got = torch.compile(lambda x: x.conj().resolve_conj(), backend="bascule", options=options, dynamic=False)(x)
    assert torch.equal(got, x.conj()) and got.stride() == x.conj().resolve_conj().stride()
    assert found and all(compile_kernel(kernel, capability).asm["cubin"] for kernel in found for capability in (80, 90))
