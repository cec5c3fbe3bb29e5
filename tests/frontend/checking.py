"""How the rules are tested: a function is imported, converted and interpreted, and compared with eager."""

import math
from collections.abc import Callable

import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.rewriter import convert_module
from bascule.frontend.importer.graph import import_graph
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
TOLERANCE = {torch.bfloat16: {"rtol": 2e-2, "atol": 1e-3}, torch.float16: {"rtol": 2e-3, "atol": 1e-5}}


def convert(function: Callable, *inputs: torch.Tensor, numerics: str = "f32") -> ir.Module:
    """The tensor stage of `function`; an operator without a rule fails the test."""
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    fake = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    module = import_graph(gm, fake, context=context()).module
    convert_module(module, Asked("error", numerics == "eager"))
    assert module.operation.verify()
    return module


def run(function: Callable, *inputs: torch.Tensor) -> list[torch.Tensor]:
    return interpret(convert(function, *inputs), list(inputs))


def check(function: Callable, *inputs: torch.Tensor, signs: bool = False, **tolerance: float) -> None:
    """`function` interpreted gives what eager gives: dtypes, NaN and infinities, and with `signs` those of zeros."""
    want = function(*(x.clone() for x in inputs))
    want = list(want) if isinstance(want, tuple | list) else [want]
    got = run(function, *inputs)
    for w, g in zip(want, got, strict=True):
        assert_close(g, w, equal_nan=True, **(tolerance or TOLERANCE.get(w.dtype, {})))
        if signs and w.is_floating_point():
            zeros = (w == 0) & (g == 0)
            assert torch.equal(torch.signbit(g[zeros]), torch.signbit(w[zeros])), "the sign of a zero"


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
    return torch.tensor([math.nan, *edges, *(-x for x in edges)], dtype=torch.float64).to(dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of special values, as a column and a row that broadcast."""
    return specials(dtype)[:, None], specials(dtype)[None, :]


def comparable(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of special values whose quotient eager's vectorised fmod can take (it gives NaN for huge ones)."""
    x = specials(dtype)
    x = x[~x.isfinite() | (x == 0) | ((x.abs() > 1e-5) & (x.abs() < 1e5))]
    return x[:, None], x[None, :]


def operator_of(name: str):
    packet, overload = name.split(".")
    return getattr(getattr(aten, packet), overload)
