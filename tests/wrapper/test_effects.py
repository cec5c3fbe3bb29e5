"""Operators registered with ordered effects: every call is made, in the program's order, whether or not anything uses its result."""

from collections.abc import Iterator

import pytest
import torch
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

heard: list[tuple[str, float]] = []


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    """`hear(x, name)` notes a name and the first element of `x` and returns `x + 1`; the backward of `felt` hears its gradient."""
    library = torch.library.Library("bascule_effects", "FRAGMENT")
    library.define("hear(Tensor x, str name) -> Tensor")
    library.define("felt(Tensor x) -> Tensor")

    def hear(x, name):
        heard.append((name, x.flatten()[0].item()))
        return x + 1

    library.impl("hear", hear, "CPU")
    library.impl("hear", lambda x, name: torch.empty_like(x), "Meta")
    library.impl("felt", torch.clone, "CPU")
    library.impl("felt", torch.empty_like, "Meta")

    def backward(ctx, gradient):
        torch.ops.bascule_effects.hear(gradient, "gradient")
        return gradient * 1

    torch.library.register_autograd("bascule_effects::felt", backward, lib=library)
    for operator in (torch.ops.bascule_effects.hear.default, torch.ops.bascule_effects.felt.default):
        _register_effectful_op(operator, _EffectType.ORDERED)
    yield
    library._destroy()


def check(function, *inputs, differentiated=False):
    results, found = [], []
    for called in (function, torch.compile(function, backend="bascule", options={"on_error": "raise"})):
        heard.clear()
        given = [x.clone().requires_grad_(differentiated) for x in inputs]
        result = called(*given)
        if differentiated:
            result.sum().backward()
        results.append([result, *(x.grad for x in given if differentiated)])
        found.append(list(heard))
    torch.testing.assert_close(results[1], results[0])
    names, numbers = zip(*found[0])
    assert tuple(name for name, _ in found[1]) == names
    assert [number for _, number in found[1]] == pytest.approx(numbers, rel=1e-4)


def test_results_that_nothing_uses():
    def function(x):
        torch.ops.bascule_effects.hear(x, "unused")
        return x * 2

    check(function, torch.randn(3, 4))
    check(function, torch.randn(3, 4), differentiated=True)


def test_equal_calls_are_two():
    def function(x):
        a = torch.ops.bascule_effects.hear(x, "same")
        b = torch.ops.bascule_effects.hear(x, "same")
        return a * b

    check(function, torch.randn(5))


def test_the_programs_order():
    """Neither what is computed late nor what is used first goes first."""

    def function(x):
        late = torch.ops.bascule_effects.hear(x.exp().cumsum(0) @ x, "late")
        torch.ops.bascule_effects.hear(x, "unused")
        early = torch.ops.bascule_effects.hear(x * 2, "early")
        return early.sum() + late

    check(function, torch.randn(4, 4))


def test_in_a_backward():
    check(lambda x: torch.ops.bascule_effects.felt(x * 2) + 1, torch.randn(3, 4), differentiated=True)


def test_in_a_graph_in_parts():
    def function(x):
        torch.ops.bascule_effects.hear(x, "before")
        y = x[x > 0]
        torch.ops.bascule_effects.hear(y + 3, "after")
        return y * 2

    check(function, torch.tensor([1.0, -2.0, 3.0]))
