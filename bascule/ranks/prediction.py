"""`bascule.predict_collectives`: the collectives of a step, those of compiled graphs and those that PyTorch's hooks begin, as simulated."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from ..compat.tensors.data_parallel import Buckets, ShardedUnit, buckets_of, sharded_units
from ..dialect.collectives.costs import Costs
from ..dialect.collectives.reducer import Gradient, Reducer
from ..dialect.collectives.sharding import At, Sharding, Unit
from ..dialect.collectives.simulation import LEAST
from ..dialect.collectives.timeline import Timeline
from ..errors import UnsupportedError, UserError
from ..reporting.module_summary import MACHINE
from .profiled_step import ProfiledStep, step_of

LINKS = "nvlink"
LOCATION = "predict_collectives"


@dataclass(frozen=True)
class WithHost:
    """Seconds of the same step where nothing is launched before this host did, which takes `host` for a step. `late`: those of the `exposed` in
    which what computes next was not launched."""

    host: float
    step: float
    communication: float
    exposed: float
    late: float


@dataclass(frozen=True)
class PredictedCollectives:
    """Seconds of a step on a GPU whose host is ahead, as simulated; and `with_host`, for a step that ran on one.

    `way`: who begins collectives beside the compiled graphs. `step`: with the optimizer. `communication`: in which a collective runs; `exposed`:
    those beside which nothing else does; `beside_copies`: those beside which only copies within the memory do. `order`: kinds and bytes of the
    collectives as the host begins them; `begun`: the kinds of those that it began in the step that was run. `waits`: of those that the step
    waits for, with the seconds. `graphs`, `operators`: how many runs of compiled graphs, and operators outside of them.
    """

    way: str
    step: float
    compute: float
    communication: float
    exposed: float
    beside_copies: float
    order: tuple[tuple[str, int | None], ...] = field(repr=False)
    waits: tuple[tuple[str, int | None, float], ...]
    begun: tuple[str, ...] = field(repr=False)
    graphs: int
    operators: int
    with_host: WithHost | None = None

    @property
    def is_as_begun(self) -> bool:
        """Whether PyTorch began the collectives that are predicted, in this order."""
        return self.begun == tuple(kind for kind, _ in self.order)

    def __str__(self) -> str:
        ms = {name: 1e3 * getattr(self, name) for name in ("step", "communication", "exposed")}
        lines = [
            f"{self.way}: {len(self.order)} collectives, {ms['communication']:.2f} ms of communication, {ms['exposed']:.2f} ms exposed, "
            f"of a step of {ms['step']:.2f} ms, as simulated ({self.graphs} runs of compiled graphs, {self.operators} operators)"
        ]
        if host := self.with_host:
            exposed = f"{1e3 * host.exposed:.2f} ms exposed ({1e3 * host.late:.2f} since it is late)"
            lines.append(
                f"  with this host, which takes {1e3 * host.host:.2f} ms: {exposed}, of a step of {1e3 * host.step:.2f} ms"
            )
        if not self.is_as_begun:
            lines.append(
                f"  NOT AS BEGUN: PyTorch began {_counted(self.begun)}, {_counted(kind for kind, _ in self.order)} are predicted"
            )
        lines += [
            f"  waits {1e3 * seconds:.3f} ms for {name} of {bytes_ or 0:,} bytes"
            for name, bytes_, seconds in self.waits
        ]
        return "\n".join(lines)


def _counted(kinds: Iterable[str]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in Counter(kinds).items()) or "none"


def predict_collectives(step: Callable[[], Any], model: Callable[..., Any]) -> PredictedCollectives:
    """Runs a step of training twice, once under a profiler of the host, and predicts its collectives on GPUs with the links of `nvlink.toml`.

    `step` takes nothing; it has run twice or more before, so that all is compiled and DDP has its buckets. `model`: what it trains, as DDP or
    `fully_shard` left it. All ranks call this. Raises `UserError` where no compiled graph runs, `UnsupportedError` for what DDP or FSDP2 is
    asked for and the simulator does not know.
    """
    costs = Costs(MACHINE, LINKS)
    host = _host_seconds(step)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        step()
    profiler: Any = found.profiler
    told = step_of(profiler.kineto_results.events(), costs)
    if not told.graphs:
        why = "no compiled graph ran: the model is not compiled by bascule, or its graphs are replayed as CUDA graphs"
        raise UserError(why, location=LOCATION)
    module = model if isinstance(model, torch.nn.Module) else None
    buckets, units = (buckets_of(module), sharded_units(module)) if module is not None else (None, [])
    timeline = Timeline(costs)
    way = play(timeline, told, buckets, units)
    late = None
    if torch.cuda.is_initialized():  # else the host's time is that of what it computes
        late = Timeline(costs)
        play(late, told.with_host(min(1.0, host / told.host_seconds)), buckets, units)
    return _prediction(way, timeline, told, late and _with_host(late, host))


def _host_seconds(step: Callable[[], Any]) -> float:
    """Of a step without a profiler, after the GPU is done with the one before."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    began = perf_counter()
    step()
    return perf_counter() - began


def _with_host(timeline: Timeline, host: float) -> WithHost:
    told = timeline.predicted()
    return WithHost(host, max(told.step, host), told.communication, told.exposed, told.late)


def play(timeline: Timeline, told: ProfiledStep, buckets: Buckets | None, units: list[ShardedUnit]) -> str:
    """Puts a step on the timeline, and says who begins its collectives."""
    hooked, after = told.split()
    shared = [unit for unit in units if unit.ranks > 1]
    unusual = dict.fromkeys(name for each in (buckets, *units) if each is not None for name in each.unusual)
    if len({unit.ranks for unit in shared}) > 1:
        unusual["groups of several sizes"] = None
    if unusual:
        raise UnsupportedError(f"{LOCATION}: nothing is predicted with {', '.join(unusual)}")
    way = "compiled graphs"
    if buckets is not None:
        way = "DDP"
        reducer = Reducer(buckets.ranks, buckets.first, buckets.most, buckets.views)
        reducer.play(timeline, [each for each in hooked if not isinstance(each, At)])
    elif shared:
        way = "FSDP2"
        known = {unit.name: Unit(unit.name, unit.gathered, unit.scattered, unit.reshards) for unit in shared}
        sharding = Sharding(timeline, known, shared[0].ranks, max(unit.kept for unit in shared))
        sharding.play(
            [
                each
                for each in hooked
                if not isinstance(each, Gradient) and (not isinstance(each, At) or each.unit in known)
            ]
        )
    else:
        after = hooked + after
    for each in after:
        if not isinstance(each, (Gradient, At)):
            timeline.call(each)
    return way


def _prediction(way: str, timeline: Timeline, told: ProfiledStep, late: WithHost | None) -> PredictedCollectives:
    predicted, starts = timeline.predicted(), timeline.found.starts
    waits = [(starts[number], seconds) for number, seconds in predicted.waited.items() if seconds > LEAST]
    return PredictedCollectives(
        way=way,
        step=predicted.step,
        compute=predicted.compute,
        communication=predicted.communication,
        exposed=predicted.exposed,
        beside_copies=predicted.beside_moves,
        order=tuple(timeline.collectives),
        waits=tuple((start.name, start.bytes, seconds) for start, seconds in waits),
        begun=tuple(told.begun),
        graphs=told.graphs,
        operators=told.operators,
        with_host=late,
    )
