"""With the option `random="eager"` a compiled function draws the numbers that eager draws; what Inductor's settings mean in options."""

import pytest
import torch
from torch.nn import functional as F

from bascule import explain
from bascule.options import INDUCTORS, options_for

X = torch.rand(7, 300)
CASES = {
    "rand_like": lambda x: torch.rand_like(x) * 2,
    "randn_like": lambda x: torch.randn_like(x) + x,
    "rand": lambda x: torch.rand(3, 40) + torch.rand(3, 40),
    "randn of an odd size": lambda x: torch.randn(17) * 3,
    "half": lambda x: torch.rand(100, dtype=torch.bfloat16).float(),
    "randint": lambda x: torch.randint(-5, 1000, (50,)) * 2,
    "randint_like": lambda x: torch.randint_like(x, 10) + 1,
    "random_": lambda x: torch.empty(50, dtype=torch.int64).random_(3, 90) + 1,
    "randperm": lambda x: torch.randperm(30) + 1,
    "bernoulli": lambda x: torch.bernoulli(x) + 1,
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.3) * x,
    "uniform_": lambda x: torch.empty(50).uniform_(-2, 5) * 2,
    "normal_": lambda x: torch.empty(50).normal_(-2, 5) * 2,
    "normal": lambda x: torch.normal(x, 2.0) * 2,
    "exponential_": lambda x: torch.empty(50).exponential_(0.7) * 2,
    "geometric_": lambda x: torch.empty(50).geometric_(0.2) * 2,
    "cauchy_": lambda x: torch.empty(50).cauchy_() * 2,
    "log_normal_": lambda x: torch.empty(50).log_normal_() * 2,
    "dropout": lambda x: F.dropout(x * 3, 0.3) + 1,
    "alpha_dropout": lambda x: F.alpha_dropout(x * 3, 0.3) + 1,
    "feature dropout": lambda x: F.dropout1d(x[None] * 3, 0.3) + 1,
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True) + 1,
    "multinomial": lambda x: torch.multinomial(x, 4) + 1,
    "several": lambda x: (torch.rand(9) + 1, F.dropout(x, 0.5), torch.randn(9) * 2),
}


def _drawn(function, x):
    torch.manual_seed(11)
    return function(x)


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_eager(name):
    compiled = torch.compile(CASES[name], backend="bascule", options={"random": "eager", "on_error": "raise"})
    torch.testing.assert_close(_drawn(compiled, X), _drawn(CASES[name], X))


def test_a_mask_of_a_dropout_is_the_same_in_the_backward():
    def gradient(function):
        x = X.clone().requires_grad_()
        out = _drawn(function, x)
        return out.detach(), *torch.autograd.grad(out.square().sum(), x)

    def model(x):
        return F.dropout(x.sin() * 3, 0.4) * torch.rand_like(x)

    compiled = torch.compile(model, backend="bascule", options={"random": "eager", "on_error": "raise"})
    torch.testing.assert_close(gradient(compiled), gradient(model))


def _attended(x):
    q = x.reshape(1, 3, 7, 100)
    return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)


def _branched(x):
    return torch.cond(x.sum() > 0, lambda x: F.dropout(x, 0.5), lambda x: F.dropout(x * 2, 0.5), (x,))


# What each draws moves the generator, though nothing uses it.
UNUSED = {
    "a dropout": lambda x: F.dropout(x * 3, 0.4),
    "attention": _attended,
    "a new tensor": lambda x: torch.randn(5),
    "in place": lambda x: torch.empty(5).uniform_(),
    "by probabilities": lambda x: torch.bernoulli(x.detach()),
    "a permutation": lambda x: torch.randperm(9),
    "in a branch": _branched,
    "before a split": lambda x: (torch.rand(3), x.argmax().item()),
}


@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", UNUSED)
def test_draws_that_nothing_uses_are_made(name, dynamic, trained):
    def model(x):
        UNUSED[name](x)
        kept = F.dropout(x.sin(), 0.5)
        UNUSED[name](x)
        return kept

    def step(function):
        x = X.clone().requires_grad_(trained)
        out = _drawn(function, x)
        gradients = torch.autograd.grad(out.square().sum(), x) if trained else ()
        return out.detach(), *gradients, torch.rand(3)

    torch._dynamo.reset()
    how = {"random": "eager", "on_error": "raise"}
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.testing.assert_close(
            step(torch.compile(model, backend="bascule", dynamic=dynamic, options=how)), step(model)
        )


def test_the_setting_of_inductor_counts_where_the_option_is_open():
    def draw(x):
        return torch.rand_like(x) * 2

    with torch._inductor.config.patch(fallback_random=True):
        asked = torch.compile(draw, backend="bascule")
        torch.testing.assert_close(_drawn(asked, X), _drawn(draw, X))
        torch._dynamo.reset()
        own = torch.compile(draw, backend="bascule", options={"random": "philox"})
        assert not torch.equal(_drawn(own, X), _drawn(draw, X))


@pytest.mark.parametrize("setting", INDUCTORS)
def test_settings_of_inductor_stand_for_options(setting):
    option, value = INDUCTORS[setting]
    default = getattr(options_for(), option)
    with torch._inductor.config.patch({setting: True}):
        assert getattr(options_for(), option) == value != default
        assert getattr(options_for(options={option: default}), option) == default


def test_explain_says_why_the_operator_is_called():
    torch._dynamo.reset()
    told = str(explain(lambda x: torch.rand_like(x) * 2, X, options={"random": "eager"}))
    assert "eager's random numbers are asked for" in told
