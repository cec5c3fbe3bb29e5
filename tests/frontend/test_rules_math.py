"""The rules of pointwise operators, reductions, scans and random numbers: imported, converted and interpreted, against eager."""

import math
from collections.abc import Callable

import pytest
import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.frontend.conversion import convert_module
from bascule.frontend.importer import import_graph
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def convert(function: Callable, *inputs: torch.Tensor, numerics: str = "f32") -> ir.Module:
    """The tensor stage of `function`; an operator without a rule fails the test."""
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    fake = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    module = import_graph(gm, fake, context=context()).module
    convert_module(module, fallback="error", eager_rounding=numerics == "eager")
    assert module.operation.verify()
    return module


def check(function: Callable, *inputs: torch.Tensor, **tolerance: float) -> None:
    """`function` interpreted gives what eager gives in a higher precision, rounded: dtypes, NaN, infinities and signs of zero too."""
    want = function(*(x.clone() for x in inputs))
    want = list(want) if isinstance(want, tuple | list) else [want]
    got = interpret(convert(function, *inputs), list(inputs))
    for w, g in zip(want, got, strict=True):
        assert_close(g, w, equal_nan=True, **tolerance)
        if w.is_floating_point():
            zeros = w == 0
            assert torch.equal(torch.signbit(g[zeros & (g == 0)]), torch.signbit(w[zeros & (g == 0)])), "sign of zero"


def specials(dtype: torch.dtype) -> torch.Tensor:
    """Ordinary numbers, and those at which operators go wrong."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True])
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        numbers = [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1]
        return torch.tensor(numbers + ([] if limits.min == 0 else [-1, -2, -3, -7]), dtype=dtype)
    limits = torch.finfo(dtype)
    edges = [0.0, math.inf, limits.max, limits.tiny, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0, 1e-3, 0.999, 20.5, 100.25]
    return torch.tensor([math.nan] + edges + [-x for x in edges], dtype=torch.float64).to(dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of special values, as a column and a row that broadcast."""
    return specials(dtype)[:, None], specials(dtype)[None, :]


EVERYWHERE = """abs neg sign sgn square reciprocal sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh
    tanh asinh acosh atanh erf erfc sigmoid sinc angle deg2rad rad2deg floor ceil trunc round isnan isinf isfinite isposinf
    isneginf signbit logical_not nan_to_num relu hardswish hardsigmoid silu mish log_sigmoid_forward gelu elu celu selu
    leaky_relu softplus hardtanh hardshrink softshrink logit special_entr lgamma digamma erfinv""".split()
NOT_OF_INTEGERS = {"logit", "sinc", "celu"}


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_unary_of_special_floats(name, dtype):
    operator = getattr(aten, name).default
    tolerance = {"rtol": 2e-2, "atol": 1e-3} if dtype == torch.bfloat16 else {}
    check(lambda x: operator(x), specials(dtype), **tolerance)
