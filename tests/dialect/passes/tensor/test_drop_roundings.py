"""Where values of 16 bits are rounded: where they are stored, compared, or converted and converted again; after each operator, if asked for."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

BF16 = torch.bfloat16


def compiled(function, *inputs: Tensor, numerics: str = "f32"):
    torch.compiler.reset()
    options = {"target": "cpu", "on_error": "raise", "fallback": "error", "numerics": numerics}
    return torch.compile(function, backend="bascule", options=options)(*inputs)


def seeded(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def share_equal(got: Tensor, want: Tensor) -> float:
    return (got == want).double().mean().item()


MEAN, VARIANCE = seeded(32), seeded(32).abs() + 0.5


def batch_norm(x: Tensor) -> Tensor:
    return F.batch_norm(x, MEAN, VARIANCE)


def group_norm(x: Tensor) -> Tensor:
    return F.group_norm(x, 4)


def layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[1:])


def rms_norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[1:])


# Their decompositions cast to f32 and back.
NORMS = [batch_norm, group_norm, layer_norm, rms_norm]


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_is_rounded_with_what_follows_it(norm):
    x = seeded(8, 32, 12, 12).to(BF16)

    def function(x: Tensor) -> Tensor:
        return F.silu(norm(x)) * 3

    once = function(x.float()).to(BF16)
    assert share_equal(function(x), once) < 0.9  # so that the next line says something
    assert share_equal(compiled(function, x), once) > 0.999


@pytest.mark.parametrize("norm", NORMS)
def test_each_operator_is_rounded_where_eagers_numbers_are_asked_for(norm):
    x = seeded(8, 32, 12, 12).to(BF16)

    def function(x: Tensor) -> Tensor:
        return F.silu(norm(x)) * 3

    assert share_equal(compiled(function, x, numerics="eager"), function(x)) > 0.995


@pytest.mark.parametrize("dtype", [BF16, torch.float16], ids=str)
def test_a_cast_of_the_users_own_stays(dtype):
    x = seeded(8, 32, 12, 12)

    def function(x: Tensor) -> Tensor:
        high = x.to(dtype)
        return high.type_as(x), (x - high).to(dtype), high.sum(dtype=torch.float32), layer_norm(x).to(dtype).float() * 3

    *exact, normal = compiled(function, x)
    for got, want in zip(exact, function(x)[:-1], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0)
    assert torch.equal(normal, (normal / 3).to(dtype).float() * 3)


def test_gradients_round_as_the_forward_does():
    x, grown = seeded(8, 32, 12, 12).to(BF16), seeded(8, 32, 12, 12).to(BF16)

    def step(function, x: Tensor, grown: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        function(x).backward(grown)
        assert x.grad is not None
        return x.grad

    def function(x: Tensor) -> Tensor:
        return F.silu(batch_norm(x)) * 3

    once = step(function, x.float(), grown.float()).to(BF16)
    torch.compiler.reset()
    ours = torch.compile(function, backend="bascule", options={"target": "cpu", "on_error": "raise"})
    assert share_equal(step(ours, x, grown), once) > 0.999 > share_equal(step(function, x, grown), once)


@pytest.mark.parametrize("shape", [(64, 100), (700, 500), (3, 100_000)], ids=str)
@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_comparisons_see_what_is_stored(shape, target):
    """Elements equal to the largest are found, wherever the largest is computed."""
    x = seeded(*shape).to(BF16)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 1.1
        return y == y.amax(), y == y.amax(0), y >= y.amax(1, keepdim=True)

    options = {"target": target, "on_error": "raise"}
    for got, want in zip(torch.compile(function, backend="bascule", options=options)(x), function(x), strict=True):
        assert torch.equal(got, want)


def test_infinities_of_16_bits_are_found():
    x = seeded(64, 64).half() * 30_000

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return torch.isinf(x * 2), torch.isfinite(x * 2), (x * 2) == float("inf"), (x.float() * 2).half().isinf()

    for got, want in zip(torch.compile(function, backend="bascule")(x), function(x), strict=True):
        assert torch.equal(got, want) and 0 < got.sum() < got.numel()


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_what_is_gated_and_its_gate_are_not_rounded_on_their_way(target):
    """The calls between means and gate keep them in different kernels."""
    x, bias = seeded(4, 24, 16, 16).to(BF16), seeded(24)
    squeeze, expand = seeded(8, 24).to(BF16), seeded(24, 8).to(BF16)

    def function(x: Tensor, squeeze: Tensor, expand: Tensor, bias: Tensor) -> Tensor:
        y = F.hardswish(x * 1.1)
        gate = F.linear(F.relu(F.linear(y.mean((2, 3)), squeeze)), expand) + bias.to(x.dtype)
        return y * F.hardsigmoid(gate)[:, :, None, None]

    assert distance(function, x, squeeze, expand, bias, target=target) < 0.75


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_what_is_small_is_not_rounded_between_kernels(target):
    """The sums of a few tokens' layers are read by the kernels of later layers."""
    x, *weights = seeded(3, 512).to(BF16), *(seeded(6, 512, 512) / 22).to(BF16)

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        for weight in weights:
            x = x + F.linear(F.rms_norm(x, x.shape[1:]), weight).tanh()
        return x.float()

    assert distance(function, x, *weights, target=target) < 0.5


def test_every_second_residual_is_stored_on_a_gpu():
    """The other one is added again from its two terms, which are as many bytes: unless it is returned."""
    x, *weights = seeded(260, 512).to(BF16), *(seeded(6, 512, 512) / 22).to(BF16)

    def sums(x: Tensor, *weights: Tensor) -> list[Tensor]:
        found = [x]
        for weight in weights:
            found.append(found[-1] + F.linear(F.rms_norm(found[-1], x.shape[1:]), weight))
        return found[1:]

    def last(x: Tensor, *weights: Tensor) -> Tensor:
        return sums(x, *weights)[-1]

    exact, eager = last(x.double(), *(w.double() for w in weights)), last(x, *weights)
    options = {"target": "interpret", "on_error": "raise"}
    torch.compiler.reset()
    stored = torch.compile(sums, backend="bascule", options=options)(x, *weights)[-1]
    torch.compiler.reset()
    again = torch.compile(last, backend="bascule", options=options)(x, *weights)
    torch.compiler.reset()
    as_eager = torch.compile(last, backend="bascule", options={**options, "numerics": "eager"})(x, *weights)
    assert (again - exact).norm() < 0.9 * (stored - exact).norm() < 0.9 * (eager - exact).norm()
    assert share_equal(as_eager, eager) > 0.999


def distance(function, *inputs: Tensor, target: str) -> float:
    """How far the compiled function is from `function` in f32, in units of what eager is."""
    torch.compiler.reset()
    ours = torch.compile(function, backend="bascule", options={"target": target, "on_error": "raise"})
    exact = function(*(x.float() for x in inputs))
    return ((ours(*inputs) - exact).norm() / (function(*inputs) - exact).norm()).item()


def test_running_extremes_of_rounded_values_are_found():
    """The last of equal ones sets the position, in the dtype in which they are equal."""
    x, w = seeded(64, 3).to(BF16), seeded(3).to(BF16)

    def function(x: Tensor, w: Tensor) -> Tensor:
        return torch.cummax((x * w).T.reshape(-1), 0).indices

    assert torch.equal(compiled(function, x, w), function(x, w))


# Eager reads a number in the dtype of the result, but for products and quotients, which read it in f32.
NUMBERS = {
    "x + 0.3": lambda x: x + 0.3,
    "x - 0.3": lambda x: x - 0.3,
    "0.3 - x": lambda x: 0.3 - x,
    "x * 0.3": lambda x: x * 0.3,
    "x / 0.3": lambda x: x / 0.3,
    "x // 0.3": lambda x: torch.floor_divide(x, 0.3),
    "x ** 1.7": lambda x: x.abs() ** 1.7,
    "1.7 ** x": lambda x: 1.7**x,
    "fmod": lambda x: torch.fmod(x, 0.3),
    "remainder": lambda x: torch.remainder(x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "lerp": lambda x: x.lerp(x * 2, 0.3),
    "a scalar tensor added": lambda x: x + torch.tensor(0.3),
    "a scalar tensor multiplied": lambda x: x * torch.tensor(0.3),
    "whole numbers": lambda x: x + torch.arange(1024),
}


@pytest.mark.parametrize("dtype", [torch.float16, BF16])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_rounded_as_eager_rounds_it(name, dtype):
    x = seeded(1024).to(dtype)
    assert share_equal(compiled(NUMBERS[name], x, numerics="eager"), NUMBERS[name](x)) > 0.995
