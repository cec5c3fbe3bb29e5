"""Batch norms in training: traced as one operator, taken apart where the partitioner gains by it."""

import pytest
import torch
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx_passes.batch_norm import BATCH_NORM
from torch.nn import functional as F

aten = torch.ops.aten
NORMS = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}


def norm(sizes, dtype=torch.float32, **how):
    made = NORMS[len(sizes)](sizes[1], **how).train()
    for tensor in made.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 2.0)
    return made.to(dtype)


def step(function, module, x, compiled):
    """The result, its gradients and the statistics after two steps."""
    call = torch.compile(function, backend="bascule", options={"on_error": "raise"}) if compiled else function
    x = x.clone().requires_grad_()
    for _ in range(2):
        y = call(module, x)
        y.backward(torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape))
    return [y.detach(), x.grad, *[p.grad for p in module.parameters()], *module.buffers()]


def compare(function, sizes, dtype=torch.float32, memory_format=torch.contiguous_format, **how):
    torch.manual_seed(0)  # a gradient may be a sum whose terms nearly cancel
    x = (torch.randn(sizes) * 3 + 5).to(dtype).contiguous(memory_format=memory_format)
    module = norm(sizes, dtype, **how)
    state = module.state_dict()
    eager, exact = norm(sizes, dtype, **how), norm(sizes, torch.float64, **how)
    eager.load_state_dict(state)
    exact.load_state_dict(state)
    exact_results = step(function, exact, x.double(), False)
    for got, like, want in zip(step(function, module, x, True), step(function, eager, x, False), exact_results):
        assert got.stride() == like.stride() and got.dtype == like.dtype
        error = (like.double() - want).abs().max().item()
        torch.testing.assert_close(got.double(), want.double(), rtol=1e-5, atol=2 * error + 1e-6)


@pytest.mark.parametrize("sizes", [(16, 5), (8, 5, 3), (4, 6, 9, 7), (3, 5, 3, 4, 2)], ids=str)
@pytest.mark.parametrize("activation", [F.relu, F.silu, torch.clone], ids=lambda f: f.__name__)
def test_a_step_is_as_eager(sizes, activation):
    compare(lambda m, x: activation(m(x)), sizes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_dtypes(dtype):
    compare(lambda m, x: F.relu(m(x)), (4, 6, 9, 7), dtype)


def test_other_forms():
    compare(lambda m, x: F.relu(m(x)), (4, 6, 9, 7), memory_format=torch.channels_last)
    compare(lambda m, x: F.silu(m(x)), (4, 6, 9, 7), affine=False)
    compare(lambda m, x: F.silu(m(x)), (4, 6, 9, 7), track_running_stats=False)


def test_dynamic_sizes():
    module, like = norm((1, 6, 1, 1)), norm((1, 6, 1, 1))
    like.load_state_dict(module.state_dict())
    compiled = torch.compile(lambda m, x: F.silu(m(x)), backend="bascule", dynamic=True)
    for sizes in ((4, 6, 9, 7), (3, 6, 5, 2)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(module, x), F.silu(like(x)), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(module.running_var, like.running_var)


def graphs(function, *inputs):
    """The forward of a training step, and how many elements it saves beside its inputs."""
    forward, saved = [], []

    def compiler(gm, example_inputs, is_backward, is_inference):
        if is_backward:
            kept = zip(gm.graph.find_nodes(op="placeholder"), example_inputs)
            saved.extend(x.numel() for n, x in kept if not n.name.startswith(("primals", "tangents")))
        else:
            forward.append([node.target for node in gm.graph.nodes])
        call = lambda args: gm(*args)  # noqa: E731
        call._boxed_call = True
        return call

    backend = lambda gm, ex: compile_with_autograd(gm, ex, compiler, decomposition_table())  # noqa: E731
    torch.compile(function, backend=backend)(*inputs).sum().backward()
    return forward[0], sum(saved)


def test_before_a_convolution_it_stays_whole():
    convolution = torch.nn.Conv2d(6, 6, 3, padding=1)
    x = torch.randn(4, 6, 8, 8, requires_grad=True)
    targets, _ = graphs(lambda m, x: convolution(F.relu(m(x) + x)), norm((4, 6, 8, 8)), x)
    assert targets.count(BATCH_NORM) == 1 and aten.rsqrt.default not in targets and aten.sub.Tensor not in targets


@pytest.mark.parametrize("function", [F.silu, F.gelu])
def test_its_result_is_not_saved_beside_its_input(function):
    x = torch.randn(4, 6, 8, 8, requires_grad=True)
    targets, saved = graphs(lambda m, x: function(m(x)), norm((4, 6, 8, 8)), x)
    assert targets.count(BATCH_NORM) == 1 and aten.sub.Tensor in targets
    assert saved < x.numel()


def test_narrow_ones_are_decomposed():
    x = torch.randn(4, 6, 8, 8, dtype=torch.bfloat16, requires_grad=True)
    targets, _ = graphs(lambda m, x: F.silu(m(x)), norm((4, 6, 8, 8), torch.bfloat16), x)
    assert BATCH_NORM not in targets and aten.var_mean.correction in targets
