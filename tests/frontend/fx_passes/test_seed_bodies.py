"""Random numbers inside of graphs that a backward runs again: its gradient is that of what was drawn, and calls, rows and steps draw apart."""

import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.compiler import nested_compile_region
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

import bascule
from tests.aot_alone import refuses

DRAWS = {
    "dropout": lambda x: dropout(x, 0.5),
    "rand_like": lambda x: x * torch.rand_like(x),
    "bernoulli_": lambda x: x * torch.empty_like(x).bernoulli_(0.4),
    "randint": lambda x: x * torch.randint_like(x, 1, 9),
    "multinomial": lambda x: x * torch.multinomial(torch.ones(9), x.numel(), replacement=True).reshape(x.shape),
    "rrelu": lambda x: torch.nn.functional.rrelu(-x, 0.1, 0.9, training=True),
}


def several(x):
    """Numbers that the gradient does not need are drawn first, and in between. Each result is `x` times numbers."""
    noise = torch.rand_like(x)
    y = dropout(x, 0.5)
    return y + 2 * dropout(x, 0.3) * (torch.rand_like(x) > 0), noise


def in_cond(body):
    return lambda x: torch.cond(x.sum() > -1e6, lambda x: tuple(body(x)), lambda x: (x * 3, x.clone()), (x,))


def in_switch(body):
    from torch._higher_order_ops.switch import switch

    branches = (lambda x: (x * 3, x.clone()), lambda x: tuple(body(x)), lambda x: (x.sin(), x.clone()))
    return lambda x: switch((x.sum() > -1e6).long(), branches, (x,))


def in_while(body):
    start = lambda x: (torch.tensor(0), x, x.detach().clone())  # noqa: E731
    return lambda x: while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, *body(y)), start(x))[1:]


def in_map(body):
    return lambda x: map_over(body, x)


def in_scan(body):
    return lambda x: scan(lambda c, x: (c + 1, tuple(body(x))), torch.zeros(()), x)[1]


def in_checkpoint(body):
    return lambda x: checkpoint(body, x, use_reentrant=False)


def in_region(body):
    return nested_compile_region(lambda x: tuple(body(x)))


SWITCHED = hasattr(torch.ops.higher_order, "switch")  # as of PyTorch 2.14
INSIDE = {"cond": in_cond, "switch": in_switch, "while": in_while, "map": in_map, "scan": in_scan, "region": in_region}
NESTED = [
    ("cond",),
    ("map",),
    ("while",),
    ("cond", "cond"),
    ("cond", "map"),
    ("map", "cond"),
    ("cond", "while"),
    ("while", "cond"),
    ("cond", "scan"),
    ("scan", "cond"),
    ("cond", "region"),
    ("region", "cond"),
    ("cond", "checkpoint"),
    *([("switch",), ("switch", "map"), ("cond", "switch")] if SWITCHED else []),
]


def check(function, *, dynamic=False, rows_differ=True):
    torch._dynamo.reset()
    options = {"on_error": "raise"}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=dynamic, fullgraph=True)
    for rows in (3, 4) if dynamic else (3,):
        x = (torch.arange(16.0 * rows).reshape(rows, 16) + 1).requires_grad_()
        y, _ = compiled(x)
        other, _ = compiled(x)
        y.sum().backward()
        factors = y.detach() / x.detach()
        torch.testing.assert_close(x.grad, factors, rtol=1e-3, atol=1e-3)  # another mask is another factor
        assert not torch.equal(y, other)
        assert not rows_differ or not torch.equal(factors[0], factors[1])


def nested(operators, body):
    for operator in reversed(operators):
        body = {**INSIDE, "checkpoint": in_checkpoint}[operator](body)
    return body


@pytest.mark.parametrize("operators", NESTED, ids=" of ".join)
def test_the_gradient_is_that_of_what_was_drawn(operators):
    """Sizes are dynamic where one operator is in no other."""
    without_draws = nested(operators, lambda x: (x.sin(), x + 1))
    if len(operators) > 1 and refuses(without_draws, torch.ones(3, 16, requires_grad=True)):
        pytest.xfail("AOTAutograd refuses these operators in each other")
    check(nested(operators, several), dynamic=len(operators) == 1)


def every(x):
    """A sum in which each operator's numbers have their own share of the gradient."""
    return sum(draw(x) * (place + 1) for place, draw in enumerate(DRAWS.values())), x.detach().clone()


@pytest.mark.parametrize("operator", ["cond", "map", "while", *(["switch"] if SWITCHED else [])])
def test_every_operator_that_draws(operator):
    check(INSIDE[operator](every))


def test_what_draws_outside_is_as_without():
    """A generator is given its state back: numbers that are drawn after the graph do not follow from its seed."""
    compiled = torch.compile(in_cond(several), backend="bascule", options={"on_error": "raise"})
    compiled(torch.ones(3, 16, requires_grad=True))
    torch.manual_seed(3)
    first = compiled(torch.ones(3, 16, requires_grad=True))[0], torch.rand(4)
    torch.manual_seed(3)
    again = compiled(torch.ones(3, 16, requires_grad=True))[0], torch.rand(4)
    torch.testing.assert_close(again, first, rtol=0, atol=0)


def test_without_gradients_nothing_is_seeded():
    explained = bascule.explain(in_cond(several), torch.ones(3, 16), options={"on_error": "raise"})
    assert "begin_draws" not in str(explained)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.rand_like(x)
        mask = torch.bernoulli(torch.full_like(x, 0.5))
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, gradient):
        (mask,) = ctx.saved_tensors
        return gradient * mask


def test_what_cannot_be_seeded_is_refused():
    function = in_cond(lambda x: (Twice.apply(x), x.clone()))
    with pytest.raises(bascule.UserError, match=r"test_seed_bodies.py:\d+.*draws more than once"):
        torch.compile(function, backend="bascule", fullgraph=True)(torch.ones(3, 16, requires_grad=True))


def test_in_what_is_checkpointed():
    check(in_checkpoint(every), rows_differ=False)
