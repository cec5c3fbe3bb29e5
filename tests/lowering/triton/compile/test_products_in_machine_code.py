"""Every product of tensor cores that PTX has is in the machine code of sm_90: an assembler that lets go of one gives zeros for sums."""

import re

import pytest
import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.interpreter import plans

from bascule.targets.interpret import Interpret
from tests.lowering.triton.kernels.test_contractions import matrices
from tests.lowering.triton.kernels.test_grouped_products import offsets
from tests.lowering.triton.kernels.test_tf32 import grouped, run

DTYPES = (torch.float32, torch.bfloat16)
NOTHING = "gdesc[URZ], RZ, !UPT"  # of an instruction that only waits


@pytest.fixture
def compiled(monkeypatch):
    """The code of each kernel that is run, and run as on an H200."""
    found = []
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    machine = {"target": "cuda", "device": "NVIDIA H200", "sm_count": 132, "capability": 90, "l2_bytes": 50 << 20}
    monkeypatch.setattr(Interpret, "machine", property(lambda self: machine))
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, arguments: found.append(compile_kernel(kernel, 90).asm))
    yield found
    torch.set_float32_matmul_precision(precision)


def products(asm):
    """How many there are in PTX, and in machine code."""
    instructions = re.findall(r"\b[HIQ]GMMA\S* [^;]*;", asm["sass"])
    return len(re.findall(r"wgmma\.mma_async", asm["ptx"])), sum(NOTHING not in each for each in instructions)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("summed", [40, 72, 100, 200])
@pytest.mark.parametrize("across", [False, True])
def test_of_groups(dtype, summed, across, compiled):
    x, w = matrices(dtype, (80, summed), (2, 56, summed) if across else (2, summed, 56))
    run(grouped if not across else (lambda x, w, o: grouped(x, w.transpose(1, 2), o)), x, w, offsets(40, 80))
    every = [products(asm) for asm in compiled]
    assert any(written for written, _ in every) and all(written <= made for written, made in every)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("summed", [40, 72, 200])
def test_of_a_result_that_may_be_zero(dtype, summed, compiled):
    x, w, flag = *matrices(dtype, (80, summed), (summed, 72)), torch.ones((), dtype=torch.bool)
    run(lambda x, w, flag: torch.where(flag, x @ w, 0.0), x, w, flag)
    every = [products(asm) for asm in compiled]
    assert any(written for written, _ in every) and all(written <= made for written, made in every)
