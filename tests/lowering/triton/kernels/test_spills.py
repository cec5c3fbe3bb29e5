"""Steps of a row that is all of a program's work: no thread has more in one than its registers hold."""

import pytest
import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import ptxas
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

import bascule  # noqa: F401  (for the backend)

FUNCTIONS = {
    "one": lambda x, y, z, b: x.sum(),
    "one with a function": lambda x, y, z, b: x.exp().sum(),
    "two": lambda x, y, z, b: (x * y).sum(),
    "two, one of a row": lambda x, y, z, b: (x * b).sum(),
    "two, one across": lambda x, y, z, b: F.mse_loss(x, z.t()),
    "two with functions": lambda x, y, z, b: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "three": lambda x, y, z, b: (x * y - b.exp()).square().mean(),
    "four": lambda x, y, z, b: torch.log1p((x * y - b).abs() + z.t().exp()).sum(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_of_everything(name, dtype, monkeypatch):
    """Of sizes that are not known, so that no other program has a part."""
    found, started = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, given: found.append(kernel) or started(kernel, given))
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(size, generator=generator).to(dtype) for size in ((70, 33), (70, 33), (33, 70), (33,))]
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret"}
    got = torch.compile(FUNCTIONS[name], backend="bascule", options=options, dynamic=True)(*given)
    want = FUNCTIONS[name](*(x.double() for x in given))
    torch.testing.assert_close(got.double(), want, rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-2)
    for kernel in found:
        assert ", 0 bytes spill stores" in ptxas.log(compile_kernel(kernel, 90).asm["ptx"], 90), kernel.name
