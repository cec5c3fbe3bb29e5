"""Random numbers: distributions, streams and seeds."""

import math
from collections.abc import Callable

import pytest
import torch
from bascule.dialect.interpreter import interpret
from torch.testing import assert_close

from tests.frontend.checking import aten, convert, run


def drawn(function: Callable, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The numbers that `function` draws after a fixed seed."""
    module = convert(function, *inputs)
    torch.manual_seed(5)
    return interpret(module, list(inputs))


def test_distributions():
    x = torch.empty(200, 200)
    results = drawn(
        lambda x: (
            aten.rand.default([200, 200]),
            aten.randn.default([200, 200]),
            aten.uniform.default(x, -1.0, 3.0),
            aten.exponential.default(x, 2.0),
            aten.bernoulli.p(x, 0.3),
            aten.geometric.default(x, 0.25),
            aten.randint.low(-5, 5, [200, 200]),
            aten.randn.default([200, 200], dtype=torch.float64),
            aten.log_normal.default(x, 0.0, 0.5),
        ),
        x,
    )
    means = [0.5, 0.0, 1.0, 0.5, 0.3, 4.0, -0.5, 0.0, math.exp(0.125)]
    deviations = [12**-0.5, 1.0, 4 * 12**-0.5, 0.5, 0.21**0.5, 12**0.5, 99**0.5 / 12**0.5, 1.0, 0.6039]
    for value, mean, deviation in zip(results, means, deviations, strict=True):
        value = value.double()
        assert abs(value.mean() - mean) < 5 * deviation / 200
        assert abs(value.std() / deviation - 1) < 0.05
    assert results[0].min() >= 0 and results[0].max() < 1
    assert results[3].min() > 0 and results[5].min() == 1
    assert results[6].unique().tolist() == list(range(-5, 5))
    flat = [r.double().flatten() for r in (results[0], results[1], results[7])]
    assert abs(torch.corrcoef(torch.stack(flat)) - torch.eye(3)).max() < 0.02, "streams depend on each other"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_uniform_numbers_stay_below_one(dtype):
    (x,) = run(lambda: aten.rand.default([20000], dtype=dtype))
    assert x.max() < 1 and abs(x.double().mean() - 0.5) < 0.02


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout_keeps_by_its_mask(p):
    x = torch.randn(100, 100)
    out, mask = drawn(lambda x: aten.native_dropout.default(x, p, True), x)
    assert abs(mask.float().mean() - (1 - p)) < 0.02
    assert_close(out, x * mask / (1 - p) if p < 1 else torch.zeros_like(x))


def test_a_seed_repeats_a_run_and_runs_differ():
    module = convert(lambda: (aten.rand.default([8]), aten.rand.default([8])))
    torch.manual_seed(1)
    first, second = interpret(module, []), interpret(module, [])
    torch.manual_seed(1)
    again = interpret(module, [])
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[0], second[0])
    assert str(module).count("call @aten.randint.low") == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_slopes_of_rrelu(dtype):
    x, noise = torch.randn(100, 100, dtype=dtype), torch.ones(100, 100, dtype=dtype)
    trained = drawn(lambda x, n: aten.rrelu_with_noise_functional.default(x, n, 0.25, 0.5, True), x, noise)
    assert_close(trained[0], x * trained[1])
    slopes = trained[1][x <= 0].double()
    assert slopes.min() >= 0.25 and slopes.max() <= 0.5
    assert abs(slopes.mean() - 0.375) < 5 * 0.25 * 12**-0.5 / len(slopes) ** 0.5
    assert (trained[1][x > 0] == 1).all()
    plain = drawn(lambda x, n: aten.rrelu_with_noise_functional.default(x, n, 0.25, 0.5, False), x, noise)
    assert_close(plain[0], aten.leaky_relu.default(x, 0.375))
    assert_close(plain[1], noise)
