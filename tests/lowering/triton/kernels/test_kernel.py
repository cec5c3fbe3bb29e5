"""Kernels of every kind, as TTIR run by the interpreter, against eager."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.errors import UnsupportedError

from tests.lowering.triton.check import check, cubins, lowered, program, run

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers with NaN, infinities and zeros of both signs among them."""
    x = torch.randn(shape, dtype=torch.float64).flatten()
    x[:: max(7, len(x) // 5)] = torch.tensor(math.nan, dtype=torch.float64)
    x[1 :: max(7, len(x) // 4)] = -0.0
    x[2 :: max(7, len(x) // 3)] = math.inf
    return x.reshape(shape).to(dtype)


# Pointwise


@pytest.mark.parametrize("dtype", DTYPES)
def test_pointwise_broadcast(dtype):
    check(lambda x, y: (F.gelu(x) + y).relu() / 3, torch.randn(5, 33).to(dtype), torch.randn(33).to(dtype))


@pytest.mark.parametrize("sizes", [(0, 0), (4, 0), (0, 4)])
def test_a_domain_without_points(sizes):
    """Whose axes are to be chosen by sizes, some of which are 0."""
    (kernel,) = lowered(program(lambda x: x.unsqueeze(0) * x.unsqueeze(1), torch.randn(sizes))).values()
    assert str(kernel.grid) == "() -> (0)"


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    x = torch.arange(-60, 60).to(dtype)
    check(lambda x: (x * 3 + 1, x // 3, x % 5, x.bitwise_and(6), x > 7, torch.maximum(x, x.flip(0))), x)


def test_booleans_are_bytes():
    check(lambda m, x: (torch.where(m, x, -x), ~m, m.logical_xor(x > 0)), torch.randn(70) > 0, torch.randn(70))


def test_conversions():
    x = torch.randn(70) * 50
    check(lambda x: (x.bfloat16(), x.half(), x.double(), x.int(), x.long(), x.bool(), x.abs().to(torch.uint8)), x)
    check(lambda x: (x.float(), x.bfloat16(), x.double()), torch.arange(0, 250).to(torch.uint8))
    check(lambda x: (x.bfloat16(), x.half(), x.float()), torch.randn(70, dtype=torch.float64))


EIGHT = [torch.float8_e4m3fn, torch.float8_e5m2]


def hard_for(dtype):
    """The middles between neighbours, what is next to them, all numbers of 16 bits, and what is too large, tiny or none."""
    every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    known = every[every.isfinite()].sort().values
    middles = ((known[1:] + known[:-1]) / 2).float()
    near = [torch.nextafter(middles, torch.tensor(to)) for to in (math.inf, -math.inf)]
    edge = torch.tensor([464.0, 464.1, 480.0, 448.0, 61439.0, 61440.0, 65536.0, 1e30, 1e-30, 1e-45, math.inf, math.nan])
    halves = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    return torch.cat([middles, *near, edge, -edge, halves])


@pytest.mark.parametrize("machine", [80, 86, 89, 90])
@pytest.mark.parametrize("dtype", EIGHT, ids=str)
def test_eight_bits(dtype, machine):
    """All bytes are read as eager reads them; numbers around those that they have become what eager makes of them. Before sm_89 by integers."""
    every, x = torch.arange(256, dtype=torch.uint8).view(dtype), hard_for(dtype)

    def function(x, every):
        return x.to(dtype), every.float(), every.bfloat16(), (every.float() * 2).to(dtype).float()

    made = program(function, x, every, machine=machine)
    for got, want in zip(run(made, [x, every]), function(x, every), strict=True):
        torch.testing.assert_close(got.float(), want.float(), equal_nan=True, rtol=0, atol=0)
        is_known = ~want.float().isnan()
        assert torch.equal(got.float().signbit()[is_known], want.float().signbit()[is_known])
    assert all(cubins(function, x, every, capability=machine, machine=machine))
    assert ("tt.fp_to_fp" in "".join(kernel.ttir for kernel in lowered(made).values())) == (machine >= 89)


def test_other_eight_bits_are_those_of_no_gpu():
    with pytest.raises(UnsupportedError, match="f8E4M3FNUZ"):
        lowered(program(lambda x: x.to(torch.float8_e4m3fnuz), torch.randn(8)))


FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc"),
    *("floor", "ceil", "round", "trunc", "abs", "neg", "sign", "reciprocal", "asin", "acos", "atan", "sinh", "cosh"),
    *("asinh", "acosh", "atanh", "isnan", "isinf", "isfinite", "exp2", "log10", "frac", "square", "signbit"),
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(getattr(torch, name), floats(60))


def test_functions_of_two():
    x, y = floats(60), floats(60).flip(0)
    check(lambda x, y: (torch.atan2(x, y), torch.pow(x.abs(), y), torch.maximum(x, y), torch.fmin(x, y)), x, y)
    check(
        lambda x, y: (torch.fmod(x, y), torch.copysign(x, y), torch.remainder(x, y)), torch.randn(60), torch.randn(60)
    )


def test_remainders_where_the_quotient_is_beyond_the_dtype():
    """Eager's vectors give NaN there; one element at a time it does not."""
    x = torch.tensor([-1e307, 3.5, -88.5, 1e300], dtype=torch.float64)
    y = torch.tensor([-2e-16, 5e-324, 2.2e-308, 7e-50], dtype=torch.float64)
    exact = [math.fmod(*pair) for pair in zip(x.tolist(), y.tolist())]
    want = torch.tensor(exact, dtype=torch.float64)
    (got,) = run(program(torch.fmod, x, y), [x, y])
    assert torch.equal(got, want)


@pytest.mark.parametrize("schedule", [{}, {"tile": 1}, {"tile": 32, "index_bits": 64}])
def test_schedules(schedule):
    check(lambda x, y: x.t() * y + 1, torch.randn(20, 9), torch.randn(9, 20), **schedule)


def test_strided_arguments():
    x = torch.randn(4, 6, 8, 3).permute(0, 3, 1, 2)  # channels-last
    check(lambda x, y: x + y, x, torch.randn(4, 3, 6, 8))
    check(lambda x: x * 2, torch.randn(1, 7).expand(5, 7))
    check(lambda x: x * 2, torch.randn(9, 20)[:, ::2])


def test_views_and_guards():
    x, y = torch.randn(6, 10), torch.randn(4, 10)
    check(lambda x, y: torch.cat([x, y * 2]).reshape(5, 20).flip(1), x, y)
    check(lambda x: F.pad(x, (2, 3, 1, 1), value=7.0), x)
    check(lambda x: torch.roll(x, 3, 1).reshape(12, 5)[:, 1:4], x)


def test_gathers():
    x, i = torch.randn(9, 5), torch.tensor([[0, 8, 3], [2, 2, 7]])
    check(lambda x, i: (x[i], torch.gather(x, 0, i[:, :2]), F.embedding(i, x)), x, i)


@pytest.mark.parametrize("size", [0, 1])
def test_degenerate_sizes(size):
    check(lambda x: x + 1, torch.randn(size, 3))
    check(lambda x: (x.sum(1), x.sum(0)), torch.randn(3, size))


# Reductions

SCHEDULES = [{}, {"step": 16, "tile": 4}, {"step": 64, "tile": 1}, {"step": 8, "tile": 1}]
rows = pytest.mark.parametrize("schedule", SCHEDULES, ids=["default", "walked", "held", "walked-alone"])


@rows
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_reductions(dtype, schedule):
    x = torch.randn(6, 37).to(dtype)
    check(lambda x: (x.sum(1), x.mean(1), x.prod(1), x.amax(1), x.amin(1), x.var(1)), x, **schedule)


@rows
def test_nan_wins(schedule):
    x = floats(6, 37)
    x[0], x[1] = -math.inf, x[1].nan_to_num()
    check(lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.argmin(1), x.isnan().any(1), (x == x).all(1)), x, **schedule)


@rows
def test_first_of_equals(schedule):
    x = torch.randint(0, 3, (6, 37))
    check(lambda x: (x.argmax(1), x.argmin(1), x.amax(1), x.sum(1)), x, **schedule)


def test_unsigned_and_boolean():
    x = torch.randint(0, 255, (6, 37)).to(torch.uint8)
    check(lambda x: (x.amax(1), x.amin(1), x.sum(1), (x > 250).any(1), (x > 2).all(1), (x > 100).sum(1)), x)


@rows
def test_softmax(schedule):
    x = torch.randn(6, 37)
    x[2, :30] = -math.inf
    check(partial(F.softmax, dim=-1), x, **schedule)
    check(partial(F.log_softmax, dim=-1), x, **schedule)


@rows
def test_layer_norm(schedule):
    x, w, b = torch.randn(6, 37).bfloat16(), torch.randn(37).bfloat16(), torch.randn(37).bfloat16()
    check(lambda x, w, b: F.layer_norm(x, (37,), w, b), x, w, b, **schedule)


def test_group_norm_rows_of_several_dimensions():
    check(lambda x, w: F.group_norm(x, 2, w), torch.randn(3, 4, 5, 7), torch.randn(4))


@rows
def test_columns(schedule):
    check(lambda x: (x.sum(0), x.amax(0)), torch.randn(45, 70), **schedule)


def test_middle_dimension():
    check(lambda x: (x.sum(1), x.argmax(1)), torch.randn(5, 6, 7))


@rows
def test_everything(schedule):
    check(lambda x: (x.sum(), x.abs().max(), x.argmax()), torch.randn(13, 11), **schedule)


def test_pooling():
    check(lambda x: F.avg_pool2d(x, 3, 2, 1), torch.randn(2, 3, 9, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scan(dtype):
    x = (torch.randn(5, 37) * 4).to(dtype)
    check(lambda x: torch.cumsum(x, 1), x)
    check(lambda x: torch.cumsum(x, 1) * 2, x, tile=1, step=64)


@pytest.mark.parametrize("size", [1, 8, 37])
def test_scans_of_columns(size):
    x = torch.randn(size, 9)
    x[size // 2, 3], x[:, 4] = math.nan, -math.inf
    check(lambda x: (x.cumsum(0), x.cumprod(0)), x)
    check(lambda x: (*torch.cummax(x, 0), *torch.cummin(x, 1)), x)
    check(lambda x: torch.softmax(x.cumsum(0), -1), torch.randn(size, 9))


def test_log_cumsum_exp():
    x = torch.randn(5, 37)
    x[1, :20], x[2, 5], x[3, 7] = -math.inf, math.inf, math.nan
    check(lambda x: torch.logcumsumexp(x, 1), x)


@pytest.mark.parametrize(
    "function", [torch.cumsum, torch.cumprod, torch.logcumsumexp, torch.logsumexp], ids=lambda f: f.__name__
)
def test_running_totals_begin_with_the_zero_that_eager_begins_with(function):
    for x in (torch.tensor([[-0.0, -0.0, 3.0], [-0.0, 0.0, 3.0]]), torch.tensor([[-0.0]])):
        (got,) = run(program(lambda x: function(x, 1), x), [x])
        assert torch.equal(got.signbit(), function(x, 1).signbit())


# Scatters


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_scatter_add(dtype):
    x, v = torch.randn(8, 5).to(dtype), (torch.randn(6, 5) * 9).to(dtype)
    check(lambda x, i, v: x.index_add(0, i, v), x, torch.tensor([1, 2, 1, 7, 1, 0]), v)
    check(lambda x, i, v: x.index_add(0, i, v), torch.randn(()), torch.tensor([0]), torch.randn(()))


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_scatter_extremes(reduce):
    x, v = torch.randn(8, 5), torch.randn(8, 5)
    v[3, 2], x[1, 1], v[0] = math.nan, math.nan, -0.0
    i = torch.randint(0, 8, (8, 5))
    check(lambda x, i, v: x.scatter_reduce(0, i, v, reduce), x, i, v)


def test_scatter_set():
    check(lambda x, i, v: x.index_copy(0, i, v), torch.randn(8, 5), torch.tensor([6, 1, 3]), torch.randn(3, 5))


def test_embedding_backward():
    i = torch.tensor([0, 3, 3, 1])
    check(lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 6, -1, False), torch.randn(4, 5), i)


# Launches


def test_dynamic_sizes():
    def function(x, y):
        return F.softmax(x + y, -1), (x * y).sum(0)

    x, y = torch.randn(6, 21), torch.randn(21)
    module = program(function, x, y, tracing_mode="symbolic")
    sizes = {"6": 6, "21": 21}
    for got, want in zip(run(module, [x, y], tuple(sizes.values())), function(x, y), strict=True):
        torch.testing.assert_close(got, want)


def test_grid_and_warps():
    (kernel,) = lowered(program(lambda x: x + 1, torch.randn(1_000_000))).values()
    assert (str(kernel.grid), kernel.warps) == ("() -> (977)", 4)


def test_flat_address_of_a_broadcast_kernel():
    """A buffer that is dense in the domain is addressed by the flat position: Triton then sees that neighbours are adjacent."""
    (kernel,) = lowered(program(lambda x, y: x + y, torch.randn(30, 50), torch.randn(50))).values()
    assert kernel.ttir.count("arith.remui") == 1
    assert "arith.divui" not in kernel.ttir
