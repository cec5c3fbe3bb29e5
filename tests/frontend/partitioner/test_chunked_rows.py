"""A language model's logits are made by chunks where its budget asks for that, and nowhere else; its gradients are eager's."""

import pytest
import torch
from bascule.runtime import release_arenas
from torch.nn import functional as F

import bascule
from benchmarks.memory import peak_bytes

VOCABULARY, WIDTH = 4000, 64
BESIDE = 1024  # bytes that PyTorch makes beside what is compiled


class Model(torch.nn.Module):
    """One layer, and a head that shares the embedding's weight."""

    def __init__(self, dtype):
        super().__init__()
        self.embedding, self.norm = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        self.to(dtype)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        logits = self.head(x)[:, :-1].float()
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def trained(dtype, rows, budget):
    """The loss and the gradients of a step, and the bytes that two steps hold at most."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, ids = Model(dtype), torch.randint(VOCABULARY, rows)
    options = {"on_error": "raise", "cache": False} | ({} if budget is None else {"memory_budget": budget})
    compiled = torch.compile(model, backend="bascule", options=options)

    def step():
        model.zero_grad(set_to_none=True)
        loss = compiled(ids)
        loss.backward()
        return loss.detach()

    step()
    found = [step(), *(p.grad.clone() for p in model.parameters())]
    model.zero_grad(set_to_none=True)
    release_arenas()
    held = sum(p.numel() * p.itemsize for p in (ids, *model.parameters()))
    return found, held + peak_bytes(lambda: (step(), step()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [(8, 64), (3, 200), (1, 300)], ids=str)
def test_two_thirds_of_the_peak(rows, dtype):
    """No choice of what is saved has logits that are half as large."""
    without, most = trained(dtype, rows, None)
    within, peak = trained(dtype, rows, 0.65)
    assert peak <= 0.65 * most + BESIDE
    for x, y in zip(within, without, strict=True):
        size = y.abs().max().item()
        torch.testing.assert_close(x, y, rtol=0, atol=size * (2e-6 if dtype == torch.float32 else 1e-2))


def remarks(budget):
    torch._dynamo.reset()
    ids = torch.randint(VOCABULARY, (8, 64))
    told = bascule.explain(Model(torch.float32), ids, options={"memory_budget": budget}).graphs
    return [str(remark) for graph in told for remark in graph.remarks]


def test_it_is_told():
    told = remarks(0.6)
    assert sum("computed in 8 chunks of rows" in remark for remark in told) == 2
    assert any("the largest product by chunks of its rows" in remark for remark in told)


def test_a_budget_that_is_kept_anyway_makes_no_chunks():
    assert not any("chunks" in remark for remark in remarks(1.0))
