"""Collectives of a few processes: all are issued, in the program's order, whatever the sizes of the shards, and what they read stays."""

import time
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from bascule.dialect.collectives.calls import IN_PLACE

from bascule.pipelines import DEFAULT
from tests.generators.ranks import RankError, end_ranks, on_ranks

OPTIONS = {"on_error": "raise"}
SLOW = 3_000_000  # elements that do not go through a socket at once


def compiled(function, **options):
    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", options=OPTIONS | options)


def issued(function, group, *inputs):
    """Its result, and how many collectives it issues."""
    before = group._get_sequence_number_for_group()
    return function(*inputs), group._get_sequence_number_for_group() - before


def uneven(rank, group, rows):
    def function(x, y):
        x, y = x * 1, y * 1
        return fc.all_reduce(x.t() @ x, "sum", group), fc.all_reduce(y.t() @ y, "sum", group)

    x, y = (torch.ones(count, 64) * scale for count, scale in zip(rows[rank], (1, 2)))
    return [out.unique().tolist() for out in compiled(function)(x, y)]


@pytest.mark.parametrize("rows", [[(1400, 600), (600, 1400)], [(0, 2000), (2000, 0)]])
def test_shards_of_different_sizes(rows):
    assert on_ranks(2, uneven, rows) == [[[2000.0], [8000.0]]] * 2


def unused(rank, group, differentiated, pipeline):
    def function(x):
        fc.all_reduce(x * 2, "sum", group)
        a = fc.all_reduce(x, "sum", group)
        return a * fc.all_reduce(x, "sum", group) + x

    x = torch.full([3000], rank + 1.0, requires_grad=differentiated)
    result, count = issued(compiled(function, pipeline=pipeline), group, x)
    return result[0].item(), count


@pytest.mark.parametrize("differentiated", [False, True])
def test_unused_and_equal_ones_are_issued(differentiated):
    """Another process may use what this one does not. All three are issued as one, where they may be."""
    assert on_ranks(2, unused, differentiated, None) == [(10.0, 1), (11.0, 1)]
    alone = ",".join(name for name in DEFAULT if name != "bucket-collectives")
    assert on_ranks(2, unused, differentiated, alone) == [(10.0, 3), (11.0, 3)]


def begun(rank, group, waits):
    """Rows that other processes read later than this one goes on: `waits` in the same graph, or after another graph has run."""
    operators, name = torch.ops._c10d_functional, group.group_name

    def function(x):
        all_rows = operators.all_gather_into_tensor(x * 2, 2, name)
        if not waits:
            return all_rows
        first = operators.wait_tensor(operators.broadcast(x[:1], 0, name))
        z = (x * 3 + first).view(-1, 1000)
        last = operators.wait_tensor(operators.broadcast((z @ z[:1000, :2]).sum(), 0, name))
        return operators.wait_tensor(all_rows), last

    def other(x):
        z = (x * 3).view(-1, 1000)
        return z @ z[:1000, :2]

    x = torch.arange(1, SLOW + 1, dtype=torch.float32) * (rank + 1)
    first, second = compiled(function), torch.compile(other, backend="bascule", options=OPTIONS)
    second(x)
    first(x)
    dist.barrier(group)
    time.sleep(0.3 * rank)
    found = first(x)
    second(x)
    rows = found[0] if waits else operators.wait_tensor(found)
    whole = torch.arange(1, SLOW + 1, dtype=torch.float32)
    return int((rows != torch.cat([whole * 2, whole * 4])).sum())


@pytest.mark.parametrize("waits", [True, False])
def test_what_is_read_stays_until_it_is_waited_for(waits):
    assert on_ranks(2, begun, waits) == [0, 0]


def in_place(rank, group, nan_asserts):
    """Several under way at a time: of products, of a view, of two at once, of one reduced before; and one whose operand is read again."""

    def function(x, w):
        once = fc.all_reduce(x @ w, "sum", group)
        again = fc.all_reduce(torch.relu(once) @ w, "sum", group)
        sent = fc.broadcast((x @ w).view(2, -1) * (1 + again.flatten()[0]), 1, group)
        kept = w @ x
        return once, again + kept, sent, fc.all_reduce(kept, "sum", group)

    generator = torch.Generator().manual_seed(rank)
    x, w = (torch.randn(8, 8, generator=generator) for _ in range(2))
    f = compiled(function, nan_asserts=nan_asserts)
    told = [float((a - b).abs().max()) for a, b in zip(f(x, w), function(x, w))]
    return max(told) < 1e-4, dist.get_world_size(group)


@pytest.mark.parametrize("nan_asserts", [False, True])
def test_reduced_in_place(nan_asserts):
    assert on_ranks(2, in_place, nan_asserts) == [(True, 2)] * 2


def overflowing(rank, group):
    try:
        compiled(lambda x: fc.all_reduce(x @ x, "sum", group) + 1, nan_asserts=True)(torch.full((4, 4), 8e18))
    except AssertionError as error:
        return str(error)


def test_infinities_of_one_reduced_in_place_are_found():
    """Each rank's product is finite, their sum is not."""
    assert all("wait_tensor" in told and "16 infinities" in told for told in on_ranks(2, overflowing))


def test_which_work_in_place():
    """All that differ from another by what they write alone."""
    copies = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, kind = name.partition("::")
        if namespace == "_c10d_functional" and kind.endswith("_"):
            twin = getattr(torch.ops._c10d_functional, kind[:-1]).default
            written = [
                x.alias_info is not None for x in getattr(torch.ops._c10d_functional, kind).default._schema.arguments
            ]
            assert written == [True] + [False] * (len(twin._schema.arguments) - 1)
            copies[f"_c10d_functional.{kind[:-1]}.default"] = f"_c10d_functional.{kind}.default"
    assert copies == IN_PLACE


def strided(rank, group):
    def function(x):
        return fc.broadcast(x.t() - 1, 0, group)

    return compiled(function)(torch.arange(6.0).view(2, 3) + 10 * rank).tolist()


def test_results_with_other_strides_than_told():
    """They are copied when they are there, not before."""
    assert on_ranks(2, strided) == [[[-1.0, 2.0], [0.0, 3.0], [1.0, 4.0]]] * 2


def failing(rank, group):
    if rank == 1:
        raise ValueError("one of them fails")
    dist.barrier(group)


def late(rank, group):
    time.sleep(60 * rank)


def test_no_process_waits_for_one_that_failed():
    with pytest.raises(RankError, match="one of them fails"):
        on_ranks(2, failing, seconds=30)
    with pytest.raises(RankError, match=r"not done: processes \[1\]"):
        on_ranks(2, late, seconds=1)
    end_ranks()
    assert on_ranks(2, rank_of) == [0, 1]


def rank_of(rank, group):
    return rank
