"""DDP's reducer and FSDP2's hooks begin collectives in the order that is assumed of them, in two processes with gloo."""

import random
import warnings
from unittest.mock import patch

import pytest
import torch
from bascule.dialect.collectives.costs import Costs
from bascule.dialect.collectives.reducer import Gradient
from bascule.dialect.collectives.timeline import ALL_GATHER, REDUCE_SCATTER, Timeline
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import ProfilerActivity, profile

from bascule.compat.tensors.data_parallel import buckets_of, sharded_units
from bascule.ranks.prediction import play
from bascule.ranks.profiled_step import step_of
from tests.generators.ranks import on_ranks

SEEDS = range(4)
STEPS = 3  # before the one that is looked at


class Layer(torch.nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, inner), torch.nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Model(torch.nn.Module):
    def __init__(self, inners, embeds):
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 4) if embeds else None
        self.layers = torch.nn.ModuleList(Layer(4, inner) for inner in inners)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = x if self.tokens is None else self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).sum()


def drawn(seed):
    draw = random.Random(seed)
    torch._dynamo.reset()
    torch.manual_seed(seed)
    embeds = draw.random() < 0.5
    model = Model([draw.randint(1, 40) for _ in range(draw.randint(1, 6))], embeds)
    return draw, model, torch.randint(11, (2, 5)) if embeds else torch.randn(5, 4)


def observed(step):
    """The step after some, as the profiler has it."""
    for _ in range(STEPS):
        step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        step()
    return found.profiler.kineto_results.events()


def compiled(module):
    return torch.compile(module, backend="bascule", options={"on_error": "raise"})


def under_ddp(rank, group, seed):
    """Predicted and real all-reduces: the gradients that came before each, and its bytes."""
    with patch.object(
        torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", 100
    ):  # Dynamo takes no smaller bucket than the first
        return _under_ddp(group, seed)


def _under_ddp(group, seed):
    warnings.simplefilter("ignore")
    draw, model, x = drawn(seed)
    cap = draw.choice([None, 1e-4, 4e-4, 1e-3])
    ddp = torch.nn.parallel.DistributedDataParallel(
        model, process_group=group, bucket_cap_mb=cap, gradient_as_bucket_view=draw.random() < 0.5
    )
    real, came = [], []

    def hook(_, bucket):
        real.append((len(came), bucket.buffer().numel() * 4))
        reduced = torch.distributed.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
        return reduced.then(lambda done: done.value()[0] / 2)

    ddp.register_comm_hook(None, hook)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: came.append(1))
    function = compiled(ddp) if draw.random() < 0.7 else ddp

    def step():
        real.clear()
        came.clear()
        function(x).backward()

    told = step_of(observed(step), Costs("h200", "nvlink"))
    begun = list(told.begun)
    told.steps = [
        each for each in told.steps if isinstance(each, Gradient)
    ]  # so that all that computes is their copies
    timeline = Timeline(Costs("h200", "nvlink"))
    assert play(timeline, told, buckets_of(ddp), []) == "DDP"
    assert [kind for kind, _ in timeline.collectives] == begun
    copies, predicted = 0, []
    for number in timeline.order:
        if number in timeline.found.starts:
            predicted.append((copies, timeline.found.starts[number].bytes))
        else:
            copies += timeline.works[number].seconds > 0
    return real, predicted


def under_fsdp2(rank, group, seed):
    """Predicted and real collectives: their kinds and bytes."""
    from torch.distributed.fsdp import fully_shard

    warnings.simplefilter("ignore")
    draw, model, x = drawn(seed)
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model.layers:
        if draw.random() < 0.8:
            fully_shard(layer, mesh=mesh, reshard_after_forward=draw.random() < 0.8)
    if model.tokens is not None and draw.random() < 0.7:
        fully_shard(model.tokens, mesh=mesh)
    if draw.random() < 0.5:
        fully_shard(model.head, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    for layer in model.layers:
        layer.forward = compiled(layer.forward)
    events = observed(lambda: model(x).backward())
    told = step_of(events, Costs("h200", "nvlink"))
    timeline = Timeline(Costs("h200", "nvlink"))
    assert play(timeline, told, None, sharded_units(model)) == "FSDP2"
    real = []
    for event in sorted(events, key=lambda each: each.start_ns()):
        name = event.name().replace("_", "")
        if name.startswith("c10d::") and ("allgather" in name or "reducescatter" in name):
            sizes = [shape[0] for shape in event.shapes() if shape]
            real.append((ALL_GATHER if "gather" in name else REDUCE_SCATTER, 4 * max(sizes)))
    return real, timeline.collectives


@pytest.mark.parametrize("under", [under_ddp, under_fsdp2])
@pytest.mark.parametrize("seed", SEEDS)
def test_order_is_as_begun(under, seed):
    for real, predicted in on_ranks(2, under, seed, seconds=200):
        assert real and real == predicted
