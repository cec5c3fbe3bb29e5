"""The predicted peak of a step with operators of a user's: what they return is let go after its last reader, as in transformers' experts."""

import pytest
import torch
from bascule.runtime import release_arenas

from bascule.budget import partition
from benchmarks.memory import peak_bytes

ROWS, WIDTH, LAYERS = 256, 64, 4
HALF = ROWS // 2


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:HALF] @ weight[0], x[HALF:] @ weight[1]])


def gradients(x: torch.Tensor, weight: torch.Tensor, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    of_x, of_weight = torch.zeros_like(x), torch.zeros_like(weight)
    for number, rows in enumerate((slice(HALF), slice(HALF, None))):
        torch.mm(given[rows], weight[number].T, out=of_x[rows])
        torch.mm(x[rows].T, given[rows], out=of_weight[number])
    return of_x, of_weight


torch.library.custom_op("bascule_budget::product", product, mutates_args=())
torch.library.custom_op("bascule_budget::gradients", gradients, mutates_args=())
operators = torch.ops.bascule_budget
torch.library.register_fake("bascule_budget::product", lambda x, weight: x.new_empty(x.shape[0], weight.shape[2]))
torch.library.register_fake(
    "bascule_budget::gradients", lambda x, weight, given: (torch.empty_like(x), torch.empty_like(weight))
)
torch.library.register_autograd(
    "bascule_budget::product",
    lambda ctx, given: operators.gradients(*ctx.saved_tensors, given),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.ParameterList(0.1 * torch.randn(2, WIDTH, 4 * WIDTH) for _ in range(LAYERS))
        self.down = torch.nn.ParameterList(0.1 * torch.randn(2, 4 * WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x):
        for up, down in zip(self.up, self.down):
            x = x + operators.product(torch.nn.functional.silu(operators.product(x, up)), down)
        return x.square().mean()


@pytest.mark.parametrize("part", [1.0, 0.85])
def test_the_predicted_peak_is_the_measured_one(part, monkeypatch):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x, told = Model(), torch.randn(ROWS, WIDTH), []
    within = partition.Search.within
    monkeypatch.setattr(
        partition.Search, "within", lambda search, limit: told.append(within(search, limit)) or told[-1]
    )
    options = {"on_error": "raise", "cache": False, "memory_budget": part}
    compiled = torch.compile(model, backend="bascule", options=options)

    def step():
        model.zero_grad(set_to_none=True)
        compiled(x).backward()

    step()
    model.zero_grad(set_to_none=True)
    release_arenas()
    measured = sum(each.nbytes for each in (x, *model.parameters())) + peak_bytes(lambda: (step(), step()))
    (outcome,) = told
    assert outcome.peak.exact
    assert measured <= outcome.peak.bytes + 512  # the loss's own gradient
    assert outcome.peak.bytes <= 1.03 * measured
