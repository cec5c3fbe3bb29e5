"""A step as `torch.profiler` has it on the host: runs of compiled graphs, operators outside of them, hooks of DDP and of FSDP2, in order.

What the hooks do themselves (copies, collectives) is not taken from the profile: `dialect/collectives/` has it from how PyTorch decides.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any

import torch

from bascule.runtime.modules.profiled import RANGE

from ..compat.operators.dispatch import DispatchKey
from ..compat.operators.schemas import OpOverload, is_registered
from ..dialect.collectives.costs import PRODUCTS, Costs
from ..dialect.collectives.reducer import Gradient
from ..dialect.collectives.sharding import At, Hook
from ..dialect.collectives.timeline import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Call, Host, Work, call_of
from ..errors import UserError
from ..reporting.graph_summary import calls_named

GRADIENT = "torch::autograd::AccumulateGrad"
HOOKS = {
    "pre_forward": Hook.PRE_FORWARD,
    "post_forward": Hook.POST_FORWARD,
    "pre_backward": Hook.PRE_BACKWARD,
    "post_backward_accumulate": Hook.POST_BACKWARD,
}
FSDP = re.compile(r"FSDP::(\w+)(?: \(([^)]*)\))?")
ROOT = "root_"  # how the names of ranges begin in which those of units are
COLLECTIVE = "c10d::"
KINDS = {"allreduce": ALL_REDUCE, "allgather": ALL_GATHER, "reducescatter": REDUCE_SCATTER}
INSIDE = (COLLECTIVE, "torch::distributed::", "torch.distributed.", "gloo:", "nccl:", "record_param_comms")
BYTES = {
    **{"c10::BFloat16": 2, "c10::Half": 2, "float": 4, "double": 8, "bool": 1, "unsigned char": 1, "signed char": 1},
    **{"short int": 2, "int": 4, "long int": 8, "long": 8},
}

Step = Sequence[Call | Host] | Gradient | At


@dataclass
class ProfiledStep:
    """A step, in order; how many `graphs` and `operators` run in it. `begun`: the kinds of the collectives that the host began, in order, inside
    of hooks and graphs too, so far as their kind is known. `host`: when the host began each of the `steps` (of a hook: the first collective in
    it, before which it copies and flattens) and when it was done, under the profiler, in seconds since the first event; `host_seconds`: until
    the end of the last."""

    steps: list[Step] = field(default_factory=list)
    graphs: int = 0
    operators: int = 0
    begun: list[str] = field(default_factory=list)
    host: list[tuple[float, float]] = field(default_factory=list)
    host_seconds: float = 0.0

    def with_host(self, scale: float) -> "ProfiledStep":
        """The same, launched when the host did, which takes `scale` as long without a profiler. It has as long for each call of a graph."""
        steps: list[Step] = []
        for step, (begun, done) in zip(self.steps, self.host, strict=True):
            if isinstance(step, (Gradient, At)):
                steps += [[Host(scale * begun)], step]
                continue
            each = (done - begun) / max(1, len(step))
            launched: list[Call | Host] = []
            calls: Sequence[Call | Host] = step
            for number, call in enumerate(calls):
                launched += [Host(scale * (begun + number * each)), call]
            steps.append(launched)
        return replace(self, steps=steps)

    def split(self) -> tuple[list[Step], list[Step]]:
        """Up to the last hook, and what comes after: the optimizer."""
        hooks = [number for number, step in enumerate(self.steps) if isinstance(step, (Gradient, At))]
        end = hooks[-1] + 1 if hooks else len(self.steps)
        return self.steps[:end], self.steps[end:]


def step_of(events: Iterable[Any], costs: Costs) -> ProfiledStep:
    """Of the events of a profile with shapes, `profile.profiler.kineto_results.events()`."""
    found = ProfiledStep()
    inside: dict[int, int] = {}  # thread -> until when it is in something that is taken as one
    hooks: dict[
        int, int
    ] = {}  # thread -> number of the step of the hook that it is in, which has begun no collective yet
    ours = [each for each in events if each.device_type().name == "CPU"]
    ours.sort(key=lambda each: (each.start_ns(), -each.duration_ns()))
    first = ours[0].start_ns() if ours else 0
    for event in ours:
        name, thread = event.name(), event.start_thread_id()
        begun, done = (1e-9 * (at - first) for at in (event.start_ns(), event.start_ns() + event.duration_ns()))
        found.host_seconds = max(found.host_seconds, done)
        if name.startswith(COLLECTIVE):
            found.begun += [kind for part, kind in KINDS.items() if part in name.replace("_", "")]
        if event.start_ns() < inside.get(thread, 0):
            if name.startswith(COLLECTIVE) and thread in hooks:
                hook = hooks.pop(thread)
                found.host[hook] = (begun, found.host[hook][1])
            continue
        hooks.pop(thread, None)
        if _take(found, name, event, costs):
            inside[thread] = event.start_ns() + event.duration_ns()
        if len(found.steps) > len(found.host):
            found.host.append((begun, done))
            if isinstance(found.steps[-1], (Gradient, At)):
                hooks[thread] = len(found.host) - 1
    return found


def _take(found: ProfiledStep, name: str, event: Any, costs: Costs) -> bool:
    """Adds an event to what is found; whether what is inside of it belongs to it."""
    if name.startswith(RANGE):
        calls = calls_named(name)
        if calls is None:
            raise UserError("a compiled graph ran that another process made", location="predict_collectives")
        found.steps.append([call_of(call) for call in calls])
        found.graphs += 1
        return True
    if name == GRADIENT:
        shapes, types = event.shapes(), event.dtypes()
        if shapes and types:
            bytes_ = prod(shapes[0]) * BYTES.get(types[0], 4)
            found.steps.append(Gradient(str(len(found.steps)), bytes_, types[0]))
        return True
    if hook := FSDP.match(name):
        if hook[1] in HOOKS:
            found.steps.append(At(HOOKS[hook[1]], hook[2] or ""))
        return not hook[1].startswith(ROOT)
    if name.startswith("aten::"):
        return _take_operator(found, name, event, costs)
    return name.startswith(INSIDE)


def _take_operator(found: ProfiledStep, name: str, event: Any, costs: Costs) -> bool:
    overloads = _overloads(name.removeprefix("aten::"))
    if any(each.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd) for each in overloads):
        return False  # it calls others
    views = any(r.alias_info and not r.alias_info.is_write for each in overloads for r in each._schema.returns)
    tensors = list(_tensors(name, event))
    if tensors and not views and "empty" not in name:
        found.steps.append([Work(*costs.of(f"aten.{name.removeprefix('aten::')}.default", tensors))])
        found.operators += 1
    return True


@cache
def _overloads(name: str) -> list[OpOverload]:
    """Those of an operator; TorchScript has others, which no dispatcher knows."""
    packet = getattr(torch.ops.aten, name, None)
    found = [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]
    return [each for each in found if is_registered(each.name())]


def _tensors(name: str, event: Any) -> Iterator[tuple[list[int], float]]:
    """The shapes of its tensors and the bytes of an element. A profile has no result: it is the product's, or as large as the largest."""
    pairs = zip(event.shapes(), event.dtypes())
    given = [(list(shape), float(BYTES[type_])) for shape, type_ in pairs if type_ in BYTES and shape]
    yield from given
    if not given:
        return
    if name.replace("::", ".") in PRODUCTS and all(len(shape) >= 2 for shape, _ in given[-2:]):
        (one, width), (other, _) = given[-2:]
        yield [*one[:-1], other[-1]], width
    else:
        yield max(given, key=lambda each: prod(each[0]))
