"""Steps of walks taken into one state a thread: the values, and that nothing changes places between threads for it."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from bascule.lowering.triton import compile_kernel
from triton_check import TOLERANCE, lowered, program, run

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


@pytest.mark.parametrize(("shape", "dim"), [((360, 1024), 0), ((180, 6144), 0), ((140, RAGGED), 1)])
def test_moments_far_from_zero(shape, dim):
    """Roundings of means are not those of the distance to zero."""
    x = 1e4 + torch.randn(shape)
    folded(lambda x: torch.var_mean(x, dim), x, tolerance={"rtol": 2e-6, "atol": 0})


def test_roundings_of_long_sums_do_not_add_up():
    """Of sizes that are not known a walk is as long as the rows, and not cut before."""
    x = torch.full((30000, 64), 0.1)
    x[:, 1], x[7, 2], x[9, 2], x[9, 3] = math.inf, math.inf, -math.inf, math.nan
    compiled = torch.compile(
        lambda x: x.sum(0), backend="bascule", dynamic=True, options={"target": "interpret", "on_error": "raise"}
    )
    torch.testing.assert_close(compiled(x).double(), x.double().sum(0), rtol=2.4e-7, atol=0, equal_nan=True)


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
    """What a thread takes into its state is what it has loaded."""
    module = program(function, torch.empty(shape, dtype=dtype, device="meta"))
    for kernel in lowered(module).values():
        text = compile_kernel(kernel, 90).asm["ptx"]
        loops = re.findall(r"^(\$L__BB\w+):(.*?)\bbra\s+\1;", text, re.MULTILINE | re.DOTALL)
        assert loops or len(lowered(module)) > 1
        for _, body in loops:
            assert "ld.global" in body
            assert not re.search(r"shfl|bar\.sync|st\.shared", body), body
