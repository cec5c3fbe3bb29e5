"""Rows that a program cannot hold: walked in steps, as few times as they must be."""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.triton.check import TOLERANCE, cubins, lowered, program, run

FEW = 16384  # registers: rows of more than 12288 elements are walked
OLDER = 80  # compute capability: one whose programs do not share rows
LONG = 20011


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def rows(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.randn(9, LONG).to(dtype)
    x[1, :9000], x[2, 70] = -math.inf, math.nan
    return x


def walked(function, *inputs, walks: int, loads: int, tolerance: dict | None = None) -> None:
    """`function` is one kernel of so many walks and loads in them, and one of what is left of whole steps, and gives what eager gives."""
    want = function(*inputs)
    want = list(want) if isinstance(want, tuple | list) else [want]
    module = program(function, *inputs, registers=FEW, machine=OLDER)
    (kernel,) = lowered(module).values()
    assert (kernel.ttir.count("scf.for"), kernel.ttir.count('"tt.load"')) == (walks, loads + len(inputs))
    for got, w in zip(run(module, list(inputs)), want, strict=True):
        torch.testing.assert_close(got, w, equal_nan=True, **(tolerance or TOLERANCE.get(w.dtype, {})))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_softmax_reads_twice(dtype):
    walked(lambda x: F.softmax(x, -1), rows(dtype), walks=2, loads=2)


def test_log_softmax_reads_twice():
    walked(lambda x: F.log_softmax(x, -1), rows(), walks=2, loads=2)


def test_cross_entropy_reads_once():
    x, t = torch.randn(9, LONG), torch.tensor([0, 5, LONG - 1, 700, 1, 2, 3, 4, 5])
    module = program(lambda x, t: F.cross_entropy(x, t, reduction="none"), x, t, registers=FEW, machine=OLDER)
    assert sum(kernel.ttir.count("scf.for") for kernel in lowered(module).values()) == 1
    torch.testing.assert_close(run(module, [x, t]), [F.cross_entropy(x, t, reduction="none")])


def test_a_row_of_minus_infinity_is_nan():
    x = torch.full((9, LONG), -math.inf)
    x[1, 5] = 1.0
    walked(lambda x: F.softmax(x, -1), x, walks=2, loads=2)


def test_the_largest_about_another_row_is_not_online():
    """The sum is about the maximum of other elements."""
    x, y = torch.randn(9, LONG), torch.randn(9, LONG)
    walked(lambda x, y: (x - y.amax(1, keepdim=True)).exp().sum(1), x, y, walks=2, loads=2)


def test_independent_reductions_walk_together():
    x = torch.randn(9, LONG)
    walked(lambda x: (x.sum(1), x.amax(1), (x * x).sum(1), x.argmin(1)), x, walks=1, loads=1)


def test_what_needs_a_result_walks_later():
    x = torch.randn(9, LONG)
    walked(lambda x: (x - x.mean(1, keepdim=True)).abs().amax(1), x, walks=2, loads=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_moments_read_once(dtype):
    x = (torch.randn(9, LONG) * 3 + 100).to(dtype)
    walked(lambda x: torch.var_mean(x, -1), x, walks=1, loads=1)


def test_layer_norm_reads_twice():
    walked(lambda x: F.layer_norm(x, (LONG,)), torch.randn(9, LONG), walks=2, loads=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_scan_reads_once(dtype):
    x = (torch.randn(9, LONG) * 4).to(dtype)
    walked(lambda x: torch.cumsum(x, 1), x, walks=1, loads=1, tolerance={"rtol": 1e-4, "atol": 1e-2})


def test_running_largest_and_its_place():
    x = torch.randint(0, 1000, (9, LONG)).float()
    x[3, 700:] = math.nan
    for got, want in zip(
        run(program(lambda x: torch.cummax(x, 1), x, registers=FEW, machine=OLDER), [x]), torch.cummax(x, 1)
    ):
        torch.testing.assert_close(got, want, equal_nan=True)


def test_running_log_sum_exp():
    x = torch.randn(9, LONG)
    x[2, :9000] = -math.inf
    walked(lambda x: torch.logcumsumexp(x, 1), x, walks=1, loads=1, tolerance={"rtol": 1e-4, "atol": 1e-4})


def test_running_product():
    x = 1 + torch.randn(9, LONG) * 1e-3
    walked(lambda x: torch.cumprod(x, 1), x, walks=1, loads=1, tolerance={"rtol": 1e-4, "atol": 0.0})


@pytest.mark.parametrize("columns", [1, 16, 33, LONG])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_begin_with_zero(columns, dtype):
    """Of nothing but -0.0 they are 0.0, whether or not a lane has no number."""
    x = torch.full((3, columns), -0.0, dtype=dtype)
    module = program(lambda x: (x.sum(1), x.sum(), x.cumsum(1)), x, registers=FEW, machine=OLDER)
    assert not any(found.signbit().any() for found in run(module, [x]))


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_compiles(capability):
    x = torch.randn(9, LONG)
    for function in (lambda x: F.softmax(x, -1), lambda x: torch.cumsum(x, 1), lambda x: torch.var_mean(x, -1)):
        assert all(cubins(function, x, capability=capability, registers=FEW, machine=OLDER))


def inside_loops(ttir: str) -> list[str]:
    """The text of each loop of a kernel."""
    return re.findall(r"^    (?:%\S+ = )?scf\.for .*?^    \}", ttir, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("function", [F.softmax, torch.cumsum, torch.sum, torch.argmax], ids=lambda f: f.__name__)
def test_whole_steps_need_no_mask(function):
    """The rest of a row, less than a step, stands behind the loop."""
    x = torch.randn(9, LONG)
    (kernel,) = lowered(program(lambda x: function(x, -1), x, registers=FEW, machine=OLDER)).values()
    loops = inside_loops(kernel.ttir)
    masks = re.compile(r"arith\.cmpi slt, %\S+, %\S+ : tensor")
    assert loops and not any(masks.search(text) for text in loops) and masks.search(kernel.ttir)


def test_a_copy_with_other_rows_goes_along():
    """Rows of the buffer that is read begin where loads of 16 bytes do, those of the copy do not."""
    padded = torch.randn(9, 20016).bfloat16()
    padded[2, 70] = math.inf

    def function(x):
        x = x[:, :LONG]
        return x.clone(), x.float().logsumexp(-1)

    module = program(function, padded, registers=FEW, machine=OLDER)
    (kernel,) = lowered(module).values()
    assert kernel.ttir.count("scf.for") == 2  # with the largest, then the sum
    want, (copy, largest) = function(padded), run(module, [padded])
    assert torch.equal(copy, want[0])
    torch.testing.assert_close(largest, want[1], rtol=1e-5, atol=1e-5)
