"""`predict_collectives` of steps on two ranks and on one: what it tells, and what it refuses."""

import warnings
from unittest.mock import patch

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

import bascule
from benchmarks.rank_models import MODELS, TINY, WAYS
from tests.generators.ranks import on_ranks


def stepping(call):
    ids = torch.zeros(TINY.batch, TINY.length, dtype=torch.int64)

    def step():
        call(ids).backward()

    for _ in range(3):
        step()
    return step


def predicted(rank, group, way, options):
    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    torch.manual_seed(0)
    wrapped = lambda f: torch.compile(f, backend="bascule", options={"on_error": "raise"})  # noqa: E731
    model = MODELS["llama"](TINY)
    if options:
        call = wrapped(torch.nn.parallel.DistributedDataParallel(model, process_group=group, **options))
    else:
        call = WAYS[way](model, DeviceMesh.from_group(group, "cpu"), wrapped)
    try:
        told = bascule.predict_collectives(stepping(call), call)
    except bascule.UnsupportedError as error:
        return str(error)
    return told


@pytest.mark.parametrize(
    ("way", "begins", "collectives"),
    [("ddp", "DDP", 1), ("fsdp2", "FSDP2", 11), ("fsdp2_whole", "FSDP2", 11), ("tp", "compiled graphs", 8)],
)
def test_ways(way, begins, collectives):
    for told in on_ranks(2, predicted, way, None, seconds=200):
        assert (told.way, len(told.order)) == (begins, collectives)
        assert told.is_as_begun and "NOT AS BEGUN" not in str(told)
        assert 0 < told.exposed <= told.communication < told.step
        assert sum(seconds for *_, seconds in told.waits) <= told.exposed * (1 + 1e-9)
        assert str(told).startswith(f"{begins}: {collectives} collectives, ")
        assert told.with_host is None  # on a CPU its time is that of what it computes


def explained(rank, group):
    warnings.simplefilter("ignore")
    ids = torch.zeros(TINY.batch, TINY.length, dtype=torch.int64)
    model = MODELS["llama"](TINY)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    return [str(bascule.explain(each, ids)) for each in (model, wrapped)]


def test_explain_tells_where_to_look():
    for plain, wrapped in on_ranks(2, explained, seconds=200):
        assert "predict_collectives" not in plain
        assert "collectives that DDP begins between the graphs" in wrapped


def in_small_buckets(rank, group, options):
    with patch.object(
        torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", 100
    ):  # Dynamo takes no smaller bucket than the first
        return predicted(rank, group, "ddp", options)


def test_smaller_buckets():
    (small, _) = on_ranks(2, in_small_buckets, {"bucket_cap_mb": 0.01}, seconds=200)
    assert small.is_as_begun and len(small.order) > 2
    parameters = sum(p.numel() for p in MODELS["llama"](TINY).parameters())
    assert sum(bytes_ for _, bytes_ in small.order) == 4 * parameters


def test_settings_of_which_nothing_is_known():
    (told, _) = on_ranks(2, predicted, "ddp", {"find_unused_parameters": True}, seconds=200)
    assert "nothing is predicted with find_unused_parameters" in told


def test_a_model_that_is_not_compiled():
    model = MODELS["llama"](TINY)
    with pytest.raises(bascule.UserError, match="no compiled graph ran"):
        bascule.predict_collectives(stepping(model), model)


def test_one_rank_has_no_collectives():
    """Graphs of the cache are known as those that are compiled are."""
    told = []
    for _ in range(2):
        torch._dynamo.reset()
        call = torch.compile(MODELS["llama"](TINY), backend="bascule")
        told.append(bascule.predict_collectives(stepping(call), call))
    assert told[0] == told[1]
    assert (told[0].order, told[0].exposed, told[0].graphs) == ((), 0, 2)
    assert str(told[0]).startswith("compiled graphs: 0 collectives")
