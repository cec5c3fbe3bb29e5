"""Several ranks train a transformer as eager does: batches of other sizes at each step, none on one rank, shards of different sizes."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

import bascule
from benchmarks.rank_models import MODELS, TINY, WAYS
from tests.generators.ranks import on_ranks

SIZE = replace(TINY, vocabulary=61, inner=72, length=6)  # 61 rows are no equal shards
ROWS = ((3, 2, 4), (2, 0, 3), (1, 3, 2), (2, 2, 1))  # a rank's, of each step


def trained(rank, group, model, way, compiled):
    """The losses, and the sum of each parameter's squares after the last step."""
    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    torch.manual_seed(0)
    whole = MODELS[model](SIZE)
    wrapped = lambda f: torch.compile(f, backend="bascule", options={"on_error": "raise"})  # noqa: E731
    call = WAYS[way](whole, DeviceMesh.from_group(group, "cpu"), wrapped if compiled else lambda f: f)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    losses = []
    for step, rows in enumerate(ROWS[0 if way == "tp" else rank]):
        generator = torch.Generator().manual_seed(10 * step + (0 if way == "tp" else rank))
        ids = torch.randint(SIZE.vocabulary, (rows, SIZE.length), generator=generator)
        torch._dynamo.maybe_mark_dynamic(ids, 0)
        loss = call(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    ends = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in whole.parameters()]
    return losses, [end.detach().square().sum().item() for end in ends], bascule.counters()["graphs"].get("compiled", 0)


@pytest.mark.parametrize(
    ("ranks", "model", "way"),
    [(2, "gpt2", "ddp"), (2, "llama", "fsdp2"), (4, "llama", "fsdp_graph"), (4, "gpt2", "tp")],
)
def test_as_eager(ranks, model, way):
    eager = on_ranks(ranks, trained, model, way, False, seconds=200)
    compiled = on_ranks(ranks, trained, model, way, True, seconds=200)
    for (wanted, ends, _), (losses, got, graphs) in zip(eager, compiled):
        assert graphs
        torch.testing.assert_close(losses, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(got, ends, rtol=1e-4, atol=1e-5)
