"""Graphs with collectives and `DTensor`s are found in the cache of traces by other processes with the same groups, and by no others."""

import os
import warnings

import torch
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from bascule.reporting.counters import counters, reset_counters
from tests.generators.ranks import end_ranks, on_ranks


def trained(rank, group, folder):
    """Of a collective and of a product of `DTensor`s, of uneven shards, checked: what became of the lookups."""
    warnings.simplefilter("ignore")
    os.environ["BASCULE_CACHE_DIR"] = folder
    reset_counters()
    torch._dynamo.reset()
    mesh = DeviceMesh.from_group(group, "cpu")
    rows = distribute_tensor(torch.arange(28.0).view(7, 4), mesh, [Shard(0)])
    weight = distribute_tensor(torch.eye(4), mesh, [Replicate()]).requires_grad_()

    def summed(x):
        return fc.all_reduce(x * 2, "sum", group) * x

    def product(x, w):
        return (x @ w).relu() * 2

    x = torch.full([2, 3], rank + 1.0, requires_grad=True)
    compiled = [torch.compile(f, backend="bascule", options={"on_error": "raise"}) for f in (summed, product)]
    compiled[0](x).sum().backward()
    made = compiled[1](rows, weight)
    assert made.device_mesh == mesh and made.placements == (Shard(0),)
    whole = made.redistribute(mesh, [Replicate()]).to_local()
    whole.sum().backward()
    os.environ["BASCULE_CACHE_DIR"] = ""
    all_rows, total = torch.arange(28.0).view(7, 4), sum(range(group.size() + 1))
    torch.testing.assert_close(x.grad, torch.full([2, 3], 4.0 * total))
    torch.testing.assert_close(whole, all_rows * 2)
    torch.testing.assert_close(weight.grad.full_tensor(), all_rows.t() @ (all_rows > 0).float() * 2)
    return counters()["traces"]


def test_other_processes_find_them(tmp_path):
    end_ranks()  # PyTorch traces no second training step over an equal mesh of another
    first = on_ranks(2, trained, str(tmp_path))
    end_ranks()
    again = on_ranks(2, trained, str(tmp_path))
    assert first == [{"miss": 2, "stored": 2}] * 2
    assert again == [{"hit": 2}] * 2
    assert all("hit" not in traces for traces in on_ranks(3, trained, str(tmp_path)))
