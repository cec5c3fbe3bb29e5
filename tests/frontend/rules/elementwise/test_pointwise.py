"""The rules of pointwise operators, with ordinary numbers and those at which operators go wrong."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.frontend.checking import (
    FLOATS,
    INTEGERS,
    aten,
    check,
    comparable,
    convert,
    operator_of,
    pairs,
    run,
    specials,
)
from tests.generators.elementwise import differences

# -- one operand --------------------------------------------------------------------------------------------------------

OF_FLOATS = """
    abs neg sign sgn square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh erf erfc sigmoid sinc angle deg2rad rad2deg floor ceil trunc round frac isnan
    isinf isfinite isposinf isneginf signbit logical_not nan_to_num hardswish hardsigmoid silu mish
    log_sigmoid_forward elu celu selu leaky_relu softplus hardtanh hardshrink softshrink logit special_entr lgamma
    digamma erfinv special_erfcx special_ndtri
"""
OF_INTEGERS = """
    abs neg sign sgn square reciprocal sqrt exp log sin tanh atan erf sigmoid floor ceil trunc round isnan isinf
    isfinite signbit logical_not nan_to_num relu bitwise_not rad2deg
"""


@pytest.mark.parametrize("name", OF_FLOATS.split())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_one_operand_of_floats(name, dtype):
    operator = getattr(aten, name).default
    if name in ("special_erfcx", "special_ndtri") and dtype == torch.bfloat16:
        pytest.skip("eager has no such kernel")
    # Eager's vectorised and scalar softshrink disagree about the sign of a zero.
    check(lambda x: operator(x), specials(dtype), signs=name != "softshrink")


@pytest.mark.parametrize("name", OF_INTEGERS.split())
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8], ids=str)
def test_one_operand_of_integers(name, dtype):
    operator = getattr(aten, name).default
    check(lambda x: operator(x), specials(dtype))


@pytest.mark.parametrize("decimals", [-2, 0, 3])
def test_round_to_decimals(decimals):
    check(lambda x: aten.round.decimals(x, decimals=decimals), torch.randn(50) * 1000)


@pytest.mark.parametrize("operator", [torch.asinh, torch.acosh])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_inverse_hyperbolic_functions_of_numbers_whose_square_is_infinite(operator, dtype):
    largest = math.log10(torch.finfo(dtype).max)
    x = torch.logspace(0, largest - 0.1, 500, dtype=torch.float64).to(dtype)
    compiled = torch.compile(operator, backend="bascule", options={"on_error": "raise"})
    for given in (x, -x, torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype)):
        assert_close(compiled(given), operator(given), equal_nan=True)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_at_infinity_is_that_of_higher_precision(approximate):
    x = specials(torch.float32)
    (got,) = run(lambda x: aten.gelu.default(x, approximate=approximate), x)
    assert_close(got, aten.gelu.default(x.double(), approximate=approximate).float(), equal_nan=True)


# -- two operands -------------------------------------------------------------------------------------------------------

BINARY_OF_FLOATS = """
    add.Tensor sub.Tensor mul.Tensor div.Tensor atan2.default copysign.Tensor maximum.default minimum.default
    fmax.default fmin.default hypot.default heaviside.default logaddexp.default logaddexp2.default xlogy.Tensor
    special_xlog1py.default eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor logical_and.default
    logical_or.default logical_xor.default pow.Tensor_Tensor nextafter.default
"""
BINARY_OF_INTEGERS = """
    add.Tensor sub.Tensor mul.Tensor div.Tensor maximum.default minimum.default eq.Tensor lt.Tensor ge.Tensor
    logical_and.default bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor bitwise_left_shift.Tensor
    bitwise_right_shift.Tensor atan2.default
"""


@pytest.mark.parametrize("name", BINARY_OF_FLOATS.split())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_two_operands_of_floats(name, dtype):
    operator = operator_of(name)
    if name == "special_xlog1py.default" and dtype == torch.bfloat16:
        pytest.skip("eager has no such kernel")
    check(lambda a, b: operator(a, b), *pairs(dtype))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_division_with_a_rounding_of_floats(mode):
    check(lambda a, b: aten.div.Tensor_mode(a, b, rounding_mode=mode), *comparable(torch.float64), signs=True)
    a, b = torch.randn(100) * 50, torch.randn(100)
    check(lambda a, b: aten.div.Tensor_mode(a, b, rounding_mode=mode), a, b)


@pytest.mark.parametrize("name", ["floor_divide.default", "fmod.Tensor", "remainder.Tensor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_remainders_of_floats(name, dtype):
    operator = operator_of(name)
    check(lambda a, b: operator(a, b), *comparable(dtype))


def test_floor_division_that_overflows():
    a, b = torch.tensor([1.0, -1.0, 3e38, torch.inf, 0.0]), torch.tensor([1e-40, 1e-42, 0.1, 2.0, 1e-40])
    check(lambda a, b: aten.floor_divide.default(a, b), a.repeat(8), b.repeat(8))  # lanes of a vector and what is left


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fraction_and_exponent(dtype):
    x = torch.cat([specials(dtype), torch.tensor([torch.finfo(dtype).smallest_normal / 4], dtype=dtype)])
    check(lambda x: tuple(torch.frexp(x)), x)


@pytest.mark.parametrize("name", BINARY_OF_INTEGERS.split())
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_two_operands_of_integers(name, dtype):
    operator = operator_of(name)
    check(lambda a, b: operator(a, b), *pairs(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["floor_divide.default", "remainder.Tensor", "fmod.Tensor"])
def test_integer_division(name, dtype):
    operator = operator_of(name)
    a, b = pairs(dtype)
    b = b[b != 0]
    overflow = -1 if dtype != torch.uint8 else None  # the smallest over -1: eager's own result depends on the dtype
    b = b[b != overflow] if overflow else b
    check(lambda a, b: operator(a, b), a, b)


def test_integer_division_that_would_trap():
    a = torch.tensor([5, -(2**63), 7])
    b = torch.tensor([0, -1, -1])
    quotient, rest = run(lambda a, b: (aten.floor_divide.default(a, b), aten.remainder.Tensor(a, b)), a, b)
    assert quotient.tolist() == [0, -(2**63), -7]
    assert rest.tolist() == [5, 0, 0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_powers(dtype):
    base = torch.arange(-5 if dtype != torch.uint8 else 0, 9).to(dtype)[:, None]
    exponent = torch.arange(0, 9).to(dtype)
    check(lambda a, b: aten.pow.Tensor_Tensor(a, b), base, exponent)
    for number in (0, 1, 2, 5):
        check(lambda a: aten.pow.Tensor_Scalar(a, number), base)  # noqa: B023


@pytest.mark.parametrize("exponent", [0, 0.5, -0.5, 1, 2, 3, -1, -2, 2.5, 7])
def test_powers_of_floats(exponent):
    check(lambda x: aten.pow.Tensor_Scalar(x, exponent), specials(torch.float32))


@pytest.mark.parametrize("exponent", [4, 5.0, 6, 7, 8.0, 9])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_whole_powers_of_floats(exponent, dtype):
    """Products, up to 8, are off by half a unit for each: no more than 4 units from the exact power."""
    x = torch.cat([specials(dtype), (torch.randn(500, dtype=torch.float64) * 3).to(dtype)])
    (got,) = run(lambda x: aten.pow.Tensor_Scalar(x, exponent), x)
    exact = torch.pow(x.double(), exponent)
    assert not differences("power", got, torch.pow(x, exponent), exact, ulps=4)


@pytest.mark.parametrize("exponent", [1.7, 0.7, -0.3, 1 / 3, -7.1, 20.3, 3.0000000000001, 2.5, -1e-9])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_exponents_that_the_dtype_has_not(exponent, dtype):
    """As exact as the f64 exponent is: eager's scalars have that, and its vectors of f32 one that is rounded, which is many units in the last
    place of large and small results."""
    x = torch.cat([specials(dtype), torch.exp((torch.rand(300, dtype=torch.float64) - 0.5) * 170).to(dtype)])
    if exponent > 3.0:  # eager's, rounded to a whole number, is one of negative numbers too
        x = x[~x.signbit()]
    (got,) = run(lambda x: aten.pow.Tensor_Scalar(x, exponent), x)
    exact = torch.pow(x.double(), exponent)
    assert not differences("power", got, exact.to(dtype), exact, ulps=2)


def test_shifts_by_more_than_the_width():
    a, b = torch.tensor([-5, 5, 1 << 40]), torch.tensor([[0], [63], [64], [-1]])
    check(lambda a, b: (aten.bitwise_left_shift.Tensor(a, b), aten.bitwise_right_shift.Tensor(a, b)), a, b)


# -- promotion ----------------------------------------------------------------------------------------------------------

MIXED = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("a", MIXED, ids=str)
@pytest.mark.parametrize("b", MIXED, ids=str)
@pytest.mark.parametrize("scalar", [False, True], ids=["", "zero_dim"])
def test_promotion(a, b, scalar):
    x = (torch.arange(6) % 5).to(a).reshape(2, 3)
    y = torch.tensor(3).to(b) if scalar else torch.tensor([1, 2, 3]).to(b)
    check(lambda x, y: (x + y, x * y, x < y, x == y, torch.where(x > y, x, y), torch.maximum(x, y)), x, y)


@pytest.mark.parametrize("dtype", MIXED, ids=str)
@pytest.mark.parametrize("number", [True, 3, 0.1])
def test_promotion_with_numbers(dtype, number):
    x = torch.tensor([0, 1, 3]).to(dtype)
    check(lambda x: (x + number, x * number, x > number, x == number), x)


def test_a_number_is_compared_as_the_tensor_stores_it():
    x = torch.tensor([0.1, 0.2], dtype=torch.bfloat16)
    check(lambda x: (x == 0.1, x >= 0.2), x)


@pytest.mark.parametrize("source", [*MIXED, torch.int8, torch.int16], ids=str)
@pytest.mark.parametrize("target", [*MIXED, torch.int8, torch.int16], ids=str)
def test_conversion(source, target):
    x = torch.tensor([0.0, 1.0, 2.7, 100.4, 0.4]).to(source)
    if source.is_floating_point:
        x = torch.cat([x, torch.tensor([-0.0, -0.6, 3.1415926]).to(source)])
        if target.is_floating_point or target == torch.bool:
            x = torch.cat([x, torch.tensor([math.nan, math.inf, -math.inf]).to(source)])
    check(lambda x: x.to(target), x, rtol=0, atol=0)


def test_a_cast_of_the_users_is_marked_and_a_rounding_of_ours_is_not():
    x = torch.randn(4, dtype=torch.bfloat16)
    assert "to_nearest_even" not in str(convert(lambda x: x + x, x))
    assert "to_nearest_even" in str(convert(lambda x: x + x, x, numerics="eager"))
    assert "to_nearest_even" in str(convert(lambda x: x.to(torch.float16), x, numerics="eager"))
    assert "bascule.cast" not in str(convert(lambda x: x + x, x))
    assert str(convert(lambda x: x.to(torch.float16), x)).count("{bascule.cast}") == 2


# -- selection and activations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_clamp(dtype):
    x = specials(dtype)
    check(lambda x: (x.clamp(-2, 3), x.clamp(min=1), x.clamp(max=1), x.clamp(3, -2)), x)
    if dtype.is_floating_point:
        check(lambda x, low: aten.clamp.Tensor(x, low[:, None], None), x, x)


BACKWARD = {
    "gelu": lambda g, x: (aten.gelu_backward(g, x), aten.gelu_backward(g, x, approximate="tanh")),
    "silu": aten.silu_backward.default,
    "mish": aten.mish_backward.default,
    "hardswish": aten.hardswish_backward.default,
    "hardsigmoid": aten.hardsigmoid_backward.default,
    "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, -3.0, 3.0),
    "hardshrink": lambda g, x: aten.hardshrink_backward(g, x, 0.5),
    "softshrink": lambda g, x: aten.softshrink_backward(g, x, 0.5),
    "softplus": lambda g, x: aten.softplus_backward(g, x, 2.0, 3.0),
    "elu": lambda g, x: (aten.elu_backward(g, 1.5, 2.0, 0.5, False, x), aten.elu_backward(g, 1.5, 2.0, 0.5, True, x)),
    "leaky_relu": lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False),
    "threshold": lambda g, x: aten.threshold_backward(g, x, 0.5),
    "sigmoid": aten.sigmoid_backward.default,
    "tanh": aten.tanh_backward.default,
    "logit": lambda g, x: (aten.logit_backward(g, x), aten.logit_backward(g, x, 0.1)),
    "prelu": lambda g, x: aten._prelu_kernel_backward(g, x, g * 0.5),
    "log_sigmoid": lambda g, x: aten.log_sigmoid_backward(g, x, (-x.abs()).exp()),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_derivatives(name):
    x = torch.tensor([-4.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.1, 0.5, 0.9, 1.0, 2.0, 3.0, 5.0, math.nan])
    check(lambda g, x: BACKWARD[name](g, x), torch.randn(14), x)
    check(lambda g, x: BACKWARD[name](g, x), torch.randn(40), torch.randn(40) * 3)


@pytest.mark.parametrize("eps", [math.nan, 0.2, 0.7, -0.5, 0.0])
def test_logit_within_any_bounds(eps):
    torch._dynamo.reset()
    x = torch.tensor([0.1, 0.5, 1.2, -1.0, 0.0, math.nan, 1.0, 0.8, math.inf, -math.inf], dtype=torch.float64)
    got = torch.compile(lambda x: torch.logit(x, eps), backend="bascule")(x)
    torch.testing.assert_close(got, torch.logit(x, eps), equal_nan=True)
