"""Many tensors in a launch, and domains made of a kernel's and its loop's."""

import torch
import torch.nn.functional as F

from tests.lowering.triton.check import lowered, program, run

COUNT = 5


def step(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """An optimizer's step: a moving average of the gradient, divided by what a step count gives."""
    results = []
    for p, g, m, n in zip(*(tensors[i * COUNT : (i + 1) * COUNT] for i in range(4))):
        average = m.lerp(g, 0.1)
        results += [p - 0.01 * average / (1 - 0.9**n), average]
    return tuple(results)


def test_an_optimizers_step_is_one_launch():
    """Tensors large enough that form-kernels leaves them a kernel each; results are in their order."""
    torch.manual_seed(0)
    inputs = [torch.randn(600, 600) for _ in range(3 * COUNT)] + [torch.tensor(float(n + 1)) for n in range(COUNT)]
    module = program(step, *inputs)
    calls = [line for line in str(module).splitlines() if " call @" in line]
    assert any(f"_x{COUNT}(" in line for line in calls)
    assert len(lowered(module)) == len(calls) <= 2
    for got, want in zip(run(module, inputs), step(*inputs), strict=True):
        torch.testing.assert_close(got, want)


def test_few_channels_and_many_places():
    """Places, not channels, are the programs."""
    torch.manual_seed(0)
    x = torch.randn(4, 16, 30, 30).to(memory_format=torch.channels_last)
    w, b = torch.randn(16), torch.randn(16)

    def function(x, w, b):
        return F.relu((x - w.view(-1, 1, 1) * b.view(-1, 1, 1)) * w.view(-1, 1, 1))

    module = program(function, x, w, b)
    for got, want in zip(run(module, [x, w, b]), [function(x, w, b)], strict=True):
        torch.testing.assert_close(got, want)
    assert "bascule.foreach" not in str(module)
