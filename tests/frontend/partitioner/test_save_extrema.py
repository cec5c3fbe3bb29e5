"""The forward saves the tensor in which a gradient looks for an extreme, so that it finds it there."""

import pytest
import torch
from bascule.frontend.partitioner.save_extrema import save_extremes
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy

from bascule.entry.backend import compile_dynamo_graph

INFINITY = float("inf")
EXTREMES = {
    "amax": lambda x: x.amax(1),
    "amin kept": lambda x: x.amin(0, keepdim=True),
    "max of all": lambda x: x.max(),
    "min of both": lambda x: torch.aminmax(x, dim=1).min,
    "largest of both": lambda x: torch.aminmax(x, dim=1).max,
    "norm": lambda x: torch.linalg.vector_norm(x, INFINITY, 1),
    "of magnitudes": lambda x: x.abs().amax(1),
    "of a view": lambda x: x.t().amax(0),
    "of a part": lambda x: x[:, 1:4].amax(1),
    "of a diagonal": lambda x: x.diagonal().amax(0),
}


def joint(function, x):
    """A step of training, as one graph."""
    return make_fx(lambda x: torch.autograd.grad(function(x.sin()).sum(), x), tracing_mode="fake")(x)


def marked(graph):
    return {node.name for node in graph.nodes if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE}


def _has_gradient(operator):
    """Whether an operator has a formula of its own, as a trace meets it."""
    try:
        joint(lambda x: operator(x, dim=1).min, torch.randn(2, 2, requires_grad=True))
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("name", EXTREMES)
def test_what_is_compared_and_the_extreme_are_marked(name):
    if "both" in name and not _has_gradient(torch.aminmax):
        pytest.skip("this PyTorch (2.11) has no gradient of aminmax")
    graph = joint(EXTREMES[name], torch.randn(4, 6, requires_grad=True)).graph
    assert save_extremes(graph) == 1
    assert "sin" in marked(graph) and len(marked(graph)) == 2


@pytest.mark.parametrize(
    "other", [lambda x: x.max(1).values, lambda x: torch.maximum(x, x.flip(0)), lambda x: x.sum(1)]
)
def test_nothing_else_is(other):
    graph = joint(other, torch.randn(4, 6, requires_grad=True)).graph
    assert save_extremes(graph) == 0 and not marked(graph)


def test_what_is_to_be_computed_again_is():
    graph = joint(EXTREMES["amax"], torch.randn(4, 6, requires_grad=True)).graph
    (sine,) = graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    sine.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    save_extremes(graph)
    assert sine.meta["recompute"] == CheckpointPolicy.MUST_RECOMPUTE


def least_angle(x):
    y = (x * 2).mean(0)
    return torch.atan2(torch.log_softmax(y.unsqueeze(-1).expand(3), 0), y.abs() + 0.5).amin(0, keepdim=True)


def largest_activation(x):
    return torch.atan(torch.tanh(F.layer_norm(x, x.shape[-1:])) * 3).amax(-1)


def softmax_in_f32(x):
    """Of scores in 16 bits, which are saved, its maximum is one of these."""
    z = ((x[:, None] - x).sin() * 0.1).float()
    powers = torch.exp(z - z.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype) @ x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("function", [least_angle, largest_activation, softmax_in_f32])
def test_an_extreme_of_rounded_values_is_found_again(function, target, dtype):
    torch._dynamo.reset()
    compiled = torch.compile(
        function,
        backend=lambda gm, inputs: compile_dynamo_graph(gm, inputs, options={"target": target, "on_error": "raise"}),
    )
    for seed in range(60 if target == "cpu" else 20):
        x = torch.randn(16, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()
        (got,) = torch.autograd.grad(compiled(x).sum(), x)
        assert not got.isnan().any()
        assert got.count_nonzero() == torch.autograd.grad(function(x).sum(), x)[0].count_nonzero()
