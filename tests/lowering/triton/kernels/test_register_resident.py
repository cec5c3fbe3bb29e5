"""Steps of walks whose reads stay in registers for later walks."""

import math

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.errors import UserError
from bascule.lowering.triton import compile_kernel

from tests.lowering.triton.check import TOLERANCE, lowered, program, run

FEW = 16384  # registers: rows of more than 12288 elements are walked
OLDER = 80  # compute capability: one whose programs do not share rows
LONG, STEP = 20011, 2048
WHOLE = LONG // STEP


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def rows(dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(9, LONG).to(dtype)
    x[1, :9000], x[2, 70] = -math.inf, math.nan
    return x


def scheduled(function, *inputs, **loop: int):
    return program(function, *inputs, registers=FEW, machine=OLDER, step=STEP, walks=loop)


@pytest.mark.parametrize("kept", [1, 3, WHOLE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_kept_steps_are_read_once(dtype, kept):
    x = rows(dtype)
    module = scheduled(lambda x: F.softmax(x, -1), x, kept=kept)
    (kernel,) = lowered(module).values()
    walks = 2 if kept < WHOLE else 0
    assert (kernel.ttir.count("scf.for"), kernel.ttir.count('"tt.load"')) == (walks, walks + kept + 1)
    want = F.softmax(x, -1)
    torch.testing.assert_close(run(module, [x])[0], want, equal_nan=True, **TOLERANCE.get(dtype, {}))


def test_several_buffers_are_kept():
    x, y, w = torch.randn(9, LONG), torch.randn(9, LONG).bfloat16(), torch.randn(LONG)
    function = lambda x, y, w: F.layer_norm(x + y, (LONG,), w)  # noqa: E731
    (got,) = run(scheduled(function, x, y, w, kept=4), [x, y, w])
    torch.testing.assert_close(got, function(x, y, w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keys", [{"kept": WHOLE + 1}, {"kept": -1}], ids=str)
def test_more_than_there_are_is_refused(keys):
    with pytest.raises(UserError, match="steps"):
        lowered(scheduled(lambda x: F.softmax(x, -1), rows(torch.float32), **keys))


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8], ids=str)
def test_compiles(dtype, capability):
    x = (torch.rand(9, LONG) * 9).to(dtype)
    function = lambda x: (x.float() - x.float().mean(1, keepdim=True)) * 2  # noqa: E731
    for kernel in lowered(scheduled(function, x, kept=3)).values():
        assert compile_kernel(kernel, capability).asm["cubin"]


def test_rows_of_which_the_cache_holds_a_part_keep_their_beginning():
    x = torch.empty(4096, 131072, dtype=torch.bfloat16, device="meta")
    (kernel,) = lowered(program(lambda x: F.softmax(x, -1, dtype=torch.float32).bfloat16(), x, machine=OLDER)).values()
    assert kernel.ttir.count('"tt.load"') == 2 + 4


def test_more_of_longer_rows_is_kept():
    x = torch.empty(512, 163840, dtype=torch.bfloat16, device="meta")
    (kernel,) = lowered(program(lambda x: F.layer_norm(x, x.shape[1:]), x, machine=OLDER)).values()
    assert kernel.ttir.count('"tt.load"') == 2 + 8


def test_short_steps_of_columns_are_read_ahead():
    x = torch.empty(128, 1568, 256, dtype=torch.bfloat16, device="meta")
    (kernel,) = lowered(program(lambda x: torch.var_mean(x.float(), 1), x)).values()
    assert "tt.num_stages = 4" in kernel.ttir


def test_columns_of_several_buffers_are_read_ahead():
    x, y = (torch.empty(1568, 16384, dtype=torch.bfloat16, device="meta") for _ in range(2))
    for function, ahead in ((lambda x, y: (x.sum(0), (x * y).sum(0)), True), (lambda x, y: x.sum(0), False)):
        (kernel,) = lowered(program(function, x, y)).values()
        assert ("tt.num_stages" in kernel.ttir) == ahead


def test_reads_under_conditions_stay():
    """Each is a part of lines of which another reads the rest."""
    x = torch.randn(64, 64)
    for function, evict in ((lambda x: F.pad(x, (3, 5)), 3), (lambda x: x.exp(), 1)):
        (kernel,) = lowered(program(function, x)).values()
        assert f"cache = 1 : i32, evict = {evict} : i32, isVolatile" in kernel.ttir
