"""Checks of the options `nan_asserts` and `size_asserts` in each call."""

import pytest
import torch

import bascule

RAISE = {"on_error": "raise"}
TARGETS = ["auto", "interpret"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def logarithms(x):
    return torch.log(x).sum(-1) * 2, torch.cat([x, torch.softmax(x, -1)])


def roots(x, w):
    return torch.linalg.svdvals(torch.sqrt(x) @ w) + 1


def asserting(function, **options):
    return torch.compile(function, backend="bascule", options={**RAISE, "nan_asserts": True, **options})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_nan_is_found_where_it_is_made(target, dynamic):
    w = torch.randn(5, 5)
    options = {**RAISE, "nan_asserts": True, "target": target}
    for function, others, name in ((logarithms, (), "log"), (roots, (w,), "sqrt")):
        f = torch.compile(function, backend="bascule", dynamic=dynamic, options=options)
        for rows in (4, 6):
            x = torch.rand(rows, 5) + 0.1
            torch.testing.assert_close(f(x, *others), function(x, *others))
            x[1, 2] = -1
            with pytest.raises(AssertionError, match=rf"nan_asserts: \w*{name}.*: 1 NaN and 0 infinities") as caught:
                f(x, *others)
            line = function.__code__.co_firstlineno + 1
            assert f"{__file__}:{line}" in "".join(caught.value.__notes__)


def test_of_an_operator_that_pytorch_runs():
    x = torch.randn(20, 20)
    f = asserting(lambda x: x @ x)
    torch.testing.assert_close(f(x), x @ x)
    with pytest.raises(AssertionError, match=r"nan_asserts: aten\.mm\.default: 0 NaN and 400 infinities"):
        f(torch.full((20, 20), 3e38))


def test_of_inputs():
    f = asserting(lambda x: x + 1)
    f(torch.randn(3))
    with pytest.raises(AssertionError, match="nan_asserts: in0: 0 NaN and 1 infinities among 3 elements"):
        f(torch.tensor([1.0, float("inf"), 2.0]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_training_step_in_which_all_is_finite(target):
    """Memory that no kernel has written yet is not looked at."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x = torch.randn(2, 6, 16)
    mask = torch.ones(6, 6).triu(1) * -100

    def loss(x):
        return layer(x, src_mask=mask).square().sum()

    found, wanted = asserting(loss, target=target)(x), loss(x)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        *(torch.autograd.grad(y, [*layer.parameters()]) for y in (found, wanted)), rtol=1e-4, atol=1e-5
    )


def test_a_gradient_that_is_not_finite():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    out = asserting(lambda x: torch.sqrt(x))(x)
    with pytest.raises(AssertionError, match=r"nan_asserts: .*: 0 NaN and 1 infinities"):
        out.sum().backward()


def test_inductors_setting_counts():
    with torch._inductor.config.patch(nan_asserts=True):
        f = torch.compile(torch.sqrt, backend="bascule", options=RAISE)
        with pytest.raises(AssertionError, match="nan_asserts"):
            f(torch.tensor([-1.0]))
        torch._dynamo.reset()
        torch.compile(torch.sqrt, backend="bascule", options={**RAISE, "nan_asserts": False})(torch.tensor([-1.0]))


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_of_other_layouts_are_found(target):
    gm = torch.fx.symbolic_trace(lambda x, y: (x @ y + 1,))
    inputs = [torch.randn(3, 4), torch.randn(4, 2)]
    f = bascule.compile_fx(gm, inputs, config_patches={**RAISE, "target": target, "size_asserts": True})
    torch.testing.assert_close(f(*inputs)[0], inputs[0] @ inputs[1] + 1)
    said = r"size_asserts: in0: compiled for sizes \[3, 4\] and strides \[4, 1\], got sizes "
    for x, got in (
        (torch.randn(4, 3).t(), r"\[3, 4\] and strides \[1, 3\]"),
        (torch.randn(2, 4), r"\[2, 4\] and strides \[4, 1\]"),
    ):
        with pytest.raises(AssertionError, match=said + got):
            f(x, inputs[1])


def test_nothing_is_checked_unless_asked():
    told = bascule.explain(logarithms, torch.rand(4, 5))
    assert "check_" not in told.graphs[0].wrapper
