"""PyTorch's operators draw the numbers that kernels draw, and leave the generator as they do."""

import pytest
import torch
from bascule.frontend.conversion.registry import load_rules
from bascule.frontend.rules.calls import random as rules

import bascule
from bascule.tiers import background
from bascule.tiers.draws import DRAWS

F, aten = torch.nn.functional, torch.ops.aten
x = torch.linspace(-2, 2, 60).reshape(5, 12)
half = x.to(torch.bfloat16)
p = torch.linspace(0, 1, 60).reshape(5, 12)

CASES = {
    "aten.rand.default": lambda: torch.rand(3, 7),
    "aten.rand_like.default": lambda: torch.rand_like(x.t()),
    "aten.randn.default": lambda: torch.randn(5, 3, dtype=torch.float64),
    "aten.randn_like.default": lambda: torch.randn_like(x),
    "aten.uniform.default": lambda: aten.uniform(x, -1.0, 3.0),
    "aten.normal_functional.default": lambda: aten.normal_functional(x, 2.0, 0.5),
    "aten.normal.Tensor_float": lambda: torch.normal(x, 0.5),
    "aten.normal.float_Tensor": lambda: torch.normal(0.5, p),
    "aten.normal.Tensor_Tensor": lambda: torch.normal(x, p),
    "aten.normal.float_float": lambda: torch.normal(1.0, 2.0, (4, 5)),
    "aten.log_normal.default": lambda: aten.log_normal(x),
    "aten.exponential.default": lambda: aten.exponential(x, 2.0),
    "aten.geometric.default": lambda: aten.geometric(x, 0.3),
    "aten.cauchy.default": lambda: aten.cauchy(x),
    "aten.bernoulli.default": lambda: torch.bernoulli(p),
    "aten.bernoulli.p": lambda: aten.bernoulli(x, 0.3),
    "aten.bernoulli.Tensor": lambda: aten.bernoulli(x, p),
    "aten.native_dropout.default": lambda: aten.native_dropout(half, 0.4, True),
    "aten.rrelu_with_noise_functional.default": lambda: aten.rrelu_with_noise_functional(
        x, torch.ones_like(x), 0.1, 0.3, True
    ),
    "aten.randint.default": lambda: torch.randint(1000, (6, 6)),
    "aten.randint.low": lambda: torch.randint(-5, 2**40, (50,)),
    "aten.randint_like.default": lambda: torch.randint_like(x, 9),
    "aten.randint_like.Tensor": lambda: aten.randint_like(x.long(), torch.tensor(2**62 + 3)),
    "aten.randint_like.low_dtype": lambda: torch.randint_like(x, -9, 9),
    "aten.random.default": lambda: aten.random(x.to(torch.float16)),
    "aten.random.to": lambda: aten.random(x, 77),
    "aten.random.from": lambda: aten.random(x.long(), -(2**63), None),
}


def both_tiers(function, *args):
    """The results of a call by operators, and by kernels, from the same seed; with the next number of the generator."""
    compiled = torch.compile(function, backend="bascule", options={"tiers": True, "on_error": "raise"})

    def call():
        torch.manual_seed(5)
        return compiled(*args), torch.rand(1)

    first = call()
    assert background.wait_for_kernels(60)
    last = call()
    assert bascule.counters()["tiers"]["graphs changed over"] == 1
    return first, last


def test_each_has_a_formula():
    load_rules()
    assert set(DRAWS) == rules._OPERATORS == set(CASES)


@pytest.mark.parametrize("operator", CASES)
def test_the_numbers_are_the_kernels(operator):
    first, last = both_tiers(CASES[operator])
    torch.testing.assert_close(first, last, rtol=1e-5, atol=1e-6)
    assert not bascule.counters()["aten"].keys() & {operator}


def test_streams_are_those_of_the_operators_that_are_left():
    def draw(x):
        unused = torch.rand_like(x)  # noqa: F841
        kept = F.dropout(x, 1.0), torch.rand(3), aten.bernoulli(x, 0.5)
        return kept, torch.randn(4, generator=None), F.dropout(x, 0.5), F.rrelu(x, training=False)

    torch.testing.assert_close(*both_tiers(draw, x))


def test_symbols_stay_symbols():
    def draw(x):
        return torch.randint(0, x.shape[0] * 5, (x.shape[0], 3)), torch.rand(x.shape[0])

    torch._dynamo.mark_dynamic(y := torch.randn(7, 2), 0)
    torch.testing.assert_close(*both_tiers(draw, y))


def test_eagers_numbers_stay_eagers():
    compiled = torch.compile(
        lambda x: torch.rand_like(x) + F.dropout(x), backend="bascule", options={"tiers": True, "random": "eager"}
    )
    torch.manual_seed(0)
    expected = torch.rand_like(x) + F.dropout(x)
    for _ in range(3):
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(x), expected)
        background.wait_for_kernels(60)


def test_the_forward_and_the_backward_of_a_seeded_dropout_agree(monkeypatch):
    """As on a GPU, where a seed is saved and no mask."""
    from bascule.frontend.fx_passes import seed_dropout

    monkeypatch.setattr(seed_dropout.seed_dropouts, "__defaults__", (("cpu",),))
    layer = torch.nn.Sequential(torch.nn.Linear(12, 12), torch.nn.Dropout(0.5))
    compiled = torch.compile(layer, backend="bascule", options={"tiers": True, "on_error": "raise"})
    for _ in range(3):
        y = compiled(x)
        y.sum().backward()
        kept = (y != 0).sum(0) * 2.0
        torch.testing.assert_close(layer[0].bias.grad, kept)
        layer.zero_grad()
        background.wait_for_kernels(60)
    assert bascule.counters()["tiers"]["graphs changed over"] == 2
