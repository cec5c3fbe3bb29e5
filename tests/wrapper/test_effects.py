"""Operators registered with ordered effects: every call is made, in the program's order, whether or not anything uses its result."""

from collections.abc import Iterator
from random import Random

import pytest
import torch
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from tests.aot_alone import refuses

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
    torch.library.register_autograd("bascule_effects::hear", lambda ctx, gradient: (gradient, None), lib=library)
    for operator in (torch.ops.bascule_effects.hear.default, torch.ops.bascule_effects.felt.default):
        _register_effectful_op(operator, _EffectType.ORDERED)
    yield
    library._destroy()


def check(function, *inputs, differentiated=False, dynamic=None):
    results, found = [], []
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for called in (function, compiled):
        heard.clear()
        given = [x.clone().requires_grad_(differentiated) for x in inputs]
        result = called(*given)
        if differentiated:
            result.sum().backward()
        results.append([result, *(x.grad for x in given if differentiated)])
        found.append(list(heard))
    torch.testing.assert_close(results[1], results[0])
    names, numbers = zip(*found[0]) if found[0] else ((), ())
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


def random_calls(seed):
    """A program of `hear`, and of computes of one domain, which may share kernels with what stands far before them."""
    draw = Random(seed)
    pieces = (
        "torch.ops.bascule_effects.hear({a}, '{o}')",
        "torch.ops.bascule_effects.hear({a}.abs().amax(), '{o}') + x",
        "{a}.sigmoid()",
        "{a} * {b}.tanh()",
        "{a} + {b}.softmax(-1)",
    )
    values = ["x"]
    lines = []
    for number in range(24):
        a, b, o = draw.choice(values), draw.choice(values), f"v{number}"
        lines.append(f"{o} = " + draw.choice(pieces).format(a=a, b=b, o=o))
        values.append(o)
    text = "\n    ".join(["def function(x):", *lines, f"return {', '.join(draw.choices(values[1:], k=3))}"])
    namespace = {"torch": torch}
    exec(text, namespace)
    return namespace["function"]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_programs_order_where_kernels_are_shared(seed, dynamic):
    """Two computes share no kernel where one makes what a call takes, and the other reads what a later call gives."""
    check(random_calls(seed), torch.randn(30, 40), dynamic=dynamic)


def test_draws_in_the_programs_order():
    """Two operators draw from PyTorch's generator one after the other, whatever they wait for."""

    def function(x):
        first = torch.bernoulli(x.sigmoid())
        return first, torch.nn.functional.dropout2d(x[None, :, :, None], 0.5), torch.rand(3)

    compiled = torch.compile(
        function, backend="bascule", dynamic=True, options={"random": "eager", "on_error": "raise"}
    )
    x = torch.randn(5, 6)
    results = []
    for called in (function, compiled):
        torch.manual_seed(3)
        results.append(called(x))
    torch.testing.assert_close(results[1], results[0])


def test_in_a_backward():
    check(lambda x: torch.ops.bascule_effects.felt(x * 2) + 1, torch.randn(3, 4), differentiated=True)


def test_in_a_graph_in_parts():
    def function(x):
        torch.ops.bascule_effects.hear(x, "before")
        y = x[x > 0]
        torch.ops.bascule_effects.hear(y + 3, "after")
        return y * 2

    check(function, torch.tensor([1.0, -2.0, 3.0]))


@torch.compiler.nested_compile_region
def region_that_hears(x):
    return torch.ops.bascule_effects.hear(x.sin(), "region") * 2


def prints(x):
    torch._higher_order_ops.print("before {} {n}", x.shape[1], n=2)
    torch.ops.bascule_effects.hear(x.detach() * 2, "between")
    torch._higher_order_ops.print("after")
    return x.sin()


def prints_in_parts(x):
    torch._higher_order_ops.print("first")
    y = x[x.detach() > -99]
    torch._higher_order_ops.print("second")
    return y.sin()


@pytest.mark.parametrize("function", [prints, prints_in_parts])
@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_printed(function, differentiated, dynamic, capsys):
    """In the program's order, in each of several calls, of which the later ones are direct; nothing but it is compiled apart."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(
            function, backend="bascule", options={"on_error": "raise"}, dynamic=dynamic, fullgraph=True
        )
        for rows in (3, 3, 4):
            told = []
            for called in (function, compiled):
                heard.clear()
                x = torch.ones(rows, 2).requires_grad_(differentiated)
                y = called(x)
                if differentiated:
                    y.sum().backward()
                told.append(([capsys.readouterr().out, heard[:]], [y.detach(), x.grad]))
            assert told[1][0] == told[0][0]
            torch.testing.assert_close(told[1][1], told[0][1])


def test_a_region_with_effects():
    check(lambda x: region_that_hears(region_that_hears(x)), torch.randn(3, 4))


def hears(name):
    return lambda x: torch.ops.bascule_effects.hear(x.sin(), name) * 2


def hears_unused(x):
    torch.ops.bascule_effects.hear(x, "unused")
    return x * 2


@torch.compiler.nested_compile_region
def region_that_branches(x):
    return torch.cond(x.sum() > -99, hears("branch"), torch.cos, (x,))


def in_loops(x):
    def predicate(i, x):
        return torch.ops.bascule_effects.hear(x, "predicate").sum() * i < 30

    def step(i, x):
        return i + 1, hears("step")(x) + 1

    return while_loop(predicate, step, (torch.tensor(0), x))[1]


def in_scan(x):
    return scan(lambda c, x: (hears("carry")(c), hears_unused(x)), torch.zeros(()), x)[1]


def without_effects(x):
    return scan(lambda c, x: (c.sin(), x * 2), torch.zeros(()), x)[1]


def between(x):
    """Neither is what is before it dropped, nor what is after it early."""
    torch.ops.bascule_effects.hear(x, "before")
    y = torch.cond(x.sum() > -99, hears_unused, torch.cos, (x,))
    torch.ops.bascule_effects.hear(x * 3, "after")
    return y


def of_no_use(x):
    torch.cond(x.sum() > -99, hears("for nothing"), torch.cos, (x,))
    return x + 1


def nested(x):
    return torch.cond(x.sum() > -99, lambda x: map_over(hears_unused, x), torch.cos, (hears("operand")(x),))


def in_switch(x):
    from torch._higher_order_ops.switch import switch

    return switch((x.sum() > -99).long(), (torch.cos, hears("branch"), hears_unused), (x,))


def equal(x):
    return region_that_hears(x) * region_that_hears(x)


def prints_in_branch(x):
    def branch(x):
        torch._higher_order_ops.print("branch")
        return hears("printed")(x)

    return torch.cond(x.sum() > -99, branch, torch.cos, (x,))


BODIES = (in_loops, in_scan, between, of_no_use, nested, equal, prints_in_branch)
if hasattr(torch.ops.higher_order, "switch"):  # as of PyTorch 2.14
    BODIES += (in_switch,)


@pytest.mark.parametrize("function", [*BODIES, lambda x: region_that_branches(region_that_branches(x))])
@pytest.mark.parametrize("differentiated", [False, True])
def test_in_graphs_that_operators_call(function, differentiated):
    """The gradients of some call their graphs again, with the effects, as eager's do."""
    if differentiated and function is in_scan and refuses(without_effects, torch.rand(3, 4, requires_grad=True)):
        pytest.xfail("AOTAutograd sees aliases in scans that are differentiated")
    check(function, torch.rand(3, 4), differentiated=differentiated)


def test_what_linear_algebra_checks_in_a_body():
    """An operator that raises for what it computed is one with an effect."""

    def function(x):
        return map_over(lambda x: torch.linalg.inv(x.outer(x) + torch.eye(4)), x)

    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, fullgraph=True)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), function(x))
    singular = torch.compile(
        lambda x: map_over(torch.linalg.inv, x), backend="bascule", options={"on_error": "raise"}, fullgraph=True
    )
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        singular(torch.zeros(2, 3, 3))
