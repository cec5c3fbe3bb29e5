"""Steps of walks taken into one state a thread: the values, and that nothing changes places between threads for it."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from bascule.lowering.triton import compile_kernel

from tests.lowering.triton.check import TOLERANCE, lowered, program, run

ALIGNED, RAGGED, UNALIGNED = 32768, 40000, 20011
SUMS = {"rtol": 1e-5, "atol": 1e-4}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def folded(function, *inputs, tolerance: dict | None = None) -> None:
    """`function` folds, and gives what eager gives in higher precision."""
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    want = function(*wide)
    want = list(want) if isinstance(want, tuple | list) else [want]
    module = program(function, *inputs)
    assert any("tt.reshape" in kernel.ttir for kernel in lowered(module).values())
    for got, w in zip(run(module, list(inputs)), want, strict=True):
        torch.testing.assert_close(got, w.to(got.dtype), equal_nan=True, **(tolerance or TOLERANCE.get(got.dtype, {})))


@pytest.mark.parametrize("length", [ALIGNED, RAGGED, UNALIGNED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_softmax(length, dtype):
    x = 5 * torch.randn(3, length).to(dtype)
    x[1, :20000] = -math.inf
    folded(lambda x: F.softmax(x, -1), x)


def test_rows_of_infinities():
    x = torch.randn(4, ALIGNED)
    x[0], x[1, 77], x[2, 9], x[3, 5] = -math.inf, math.inf, math.nan, -math.inf
    folded(lambda x: F.softmax(x, -1), x)


@pytest.mark.parametrize("length", [ALIGNED, RAGGED, UNALIGNED])
def test_moments_of_rows(length):
    x = 3 + torch.randn(140, length)
    folded(lambda x: torch.var_mean(x, -1), x, tolerance=SUMS)


@pytest.mark.parametrize("function", [torch.sum, torch.amax, torch.argmax, torch.argmin, torch.amin])
def test_other_reductions(function):
    x = torch.randint(-1000, 1000, (2, RAGGED)).float()
    folded(lambda x: function(x, -1), x, tolerance=SUMS)


@pytest.mark.parametrize(("rows", "width"), [(4096, 256), (3000, 256), (4096, 201)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_moments_of_columns(rows, width, dtype):
    x = (3 + torch.randn(rows, width)).to(dtype)
    folded(lambda x: torch.var_mean(x.float(), 0), x, tolerance={"rtol": 1e-4, "atol": 1e-4})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sums_of_columns(dtype):
    x = torch.randn(4096, 256).to(dtype)
    folded(lambda x: (x.float().sum(0), x.float().square().sum(0)), x, tolerance={"rtol": 1e-4, "atol": 1e-3})


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        (lambda x: F.softmax(x, -1), (8, ALIGNED), torch.bfloat16),
        (lambda x: F.softmax(x, -1), (8, ALIGNED), torch.float32),
        (lambda x: F.softmax(x, -1), (8, 3 * UNALIGNED), torch.bfloat16),
        (lambda x: torch.var_mean(x.float(), -1), (140, ALIGNED), torch.bfloat16),
        (lambda x: torch.var_mean(x.float(), 0), (4096, 4096), torch.bfloat16),
        (lambda x: x.sum(0), (4096, 4096), torch.float32),
    ],
    ids=["bf16 row", "f32 row", "unaligned row", "moments", "columns", "f32 columns"],
)
def test_nothing_changes_places_in_a_step(function, shape, dtype):
    """A thread takes into its state what it has loaded itself."""
    module = program(function, torch.empty(shape, dtype=dtype, device="meta"))
    for kernel in lowered(module).values():
        text = compile_kernel(kernel, 90).asm["ptx"]
        loops = re.findall(r"^(\$L__BB\w+):(.*?)\bbra\s+\1;", text, re.MULTILINE | re.DOTALL)
        assert loops or len(lowered(module)) > 1
        for _, body in loops:
            assert "ld.global" in body
            assert not re.search(r"shfl|bar\.sync|st\.shared", body), body
