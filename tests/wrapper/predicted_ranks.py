"""Graphs of one rank of several, traced and compiled in one process that never runs them, and what the simulator says of them."""

import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import torch
import torch.distributed as dist
from bascule.dialect.collectives.costs import Costs
from bascule.dialect.collectives.reducer import Gradient, Reducer
from bascule.dialect.collectives.sharding import At, Hook, Sharding, Unit
from bascule.dialect.collectives.timeline import Call, Timeline, Work, calls_of
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.mlir import ir
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.importer.graph import import_graph
from bascule.runtime.boxed import boxed
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore  # Checked on torch 2.11 to 2.14.
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bascule.options import Options
from bascule.pipelines import up_to
from bascule.reporting.graph_summary import Overlap
from bascule.reporting.module_summary import overlap
from benchmarks.rank_models import MODELS, SIZES, WAYS, Size


class _Stop(Exception):
    """The graphs are there."""


@dataclass
class Traced:
    """A graph of a rank on a GPU. `parameters`: the bytes of those among its inputs, in their order."""

    backward: bool
    parameters: list[int]
    overlap: Overlap | None
    calls: tuple[Call, ...]


def predictions(
    model: str, way: str, passes: dict[str, str] | None = None, ranks: int = 8, **changed: int
) -> Sequence[Overlap]:
    """Prediction for the forward and the backward of `model` on a GPU, distributed as `way` says. `passes`: name -> text of those that
    are to have options. `changed`: fields of its size."""
    return [each.overlap for each in traced(replace(SIZES[model], **changed), model, way, passes, ranks)]


def traced(size: Size, model: str, way: str, passes: dict[str, str] | None, ranks: int) -> list[Traced]:
    """The graphs. In a process of its own where this one has a group of ranks."""
    if dist.is_initialized():
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(traced, size, model, way, passes, ranks).result()
    default = up_to("program", Options(), {"target": "cuda", "capability": 90})
    told = [(passes or {}).get(stage.name, stage.spelling()) for stage in default.stages]
    pipeline = type(default).parse(",".join(text for text in told if text))
    found: list[Traced] = []

    def backend(gm, example_inputs):
        given = [x.numel() * x.itemsize for x in example_inputs if isinstance(x, torch.nn.Parameter)]

        def compiler(gm, example_inputs, *, is_backward, **kind):
            module = import_graph(gm, example_inputs, context=context()).module
            pipeline.run(module)
            found.append(Traced(is_backward, given, overlap(module), _calls(module)))
            return boxed(lambda args: run(gm, args))

        return compile_with_autograd(gm, example_inputs, compiler, decomposition_table())

    def run(gm, args):
        """Fake tensors alone: Dynamo gives them to the parts of a graph of DDP's."""
        if not any(isinstance(each, FakeTensor) for each in args):
            raise _Stop
        return torch.fx.Interpreter(gm).run(*args)

    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    torch._functorch.config.force_non_lazy_backward_lowering = True
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        with torch.device("cpu" if way == "ddp" else "meta"):
            whole = MODELS[model](size).to(size.dtype)
        call = WAYS[way](whole, init_device_mesh("cpu", (ranks,)), lambda f: torch.compile(f, backend=backend))
        if way != "ddp":
            whole.to_empty(device="cpu")
        call(torch.zeros(size.batch, size.length, dtype=torch.int64))
    except _Stop:
        pass
    finally:
        dist.destroy_process_group()
    return found


def _calls(module: ir.Module) -> tuple[Call, ...]:
    with module.context:
        (graph,) = graph_functions(module)
        return calls_of(graph, ir.SymbolTable(module.operation), Costs("h200", "nvlink"))


def step_under_ddp(model: str, ranks: int, megabytes: int | None = None) -> Timeline:
    """A step of `model` on a GPU, up to its optimizer; DDP's buckets are full at so many MiB, as Dynamo splits its graph at their ends."""
    graphs = traced(SIZES[model], model, "ddp", None, ranks)
    timeline, cap = Timeline(Costs("h200", "nvlink")), 25 if megabytes is None else megabytes
    for graph in graphs:
        if not graph.backward:
            timeline.call(graph.calls)
    backward: list[Sequence[Call] | Gradient] = []
    for graph in reversed(graphs):
        if graph.backward:
            backward.append(graph.calls)
            backward += [Gradient(f"{len(backward)}, {n}", n_bytes) for n, n_bytes in enumerate(graph.parameters[::-1])]
    Reducer(ranks, (1 if megabytes is None else cap) << 20, cap << 20).play(timeline, backward)
    return timeline


def step_under_fsdp2(model: str, ranks: int, bandwidth: float | None = None) -> Timeline:
    """A step of `model` on a GPU, up to its optimizer; its ends run by operators. `bandwidth`: of the links, bytes/s, if not as measured."""
    size = SIZES[model]
    forward, backward = traced(size, model, "fsdp2", None, ranks)
    with torch.device("meta"):
        whole = MODELS[model](size).to(size.dtype)
    blocks = {f"block {n}": Unit(f"block {n}", *2 * (_bytes(block),)) for n, block in enumerate(whole.blocks)}
    first = Unit("tokens", *2 * (_bytes(whole.tokens),))
    last = Unit("head", *2 * (_bytes(whole.norm) + _bytes(whole.head),), reshards=False)
    ends = _ends(whole, size)
    step: list[Sequence[Call] | At] = []
    calls = [
        ("tokens", ends[0], ends[3]),
        *((name, forward.calls, backward.calls) for name in blocks),
        ("head", ends[1], ends[2]),
    ]
    for name, there, _ in calls:
        step += [At(Hook.PRE_FORWARD, name), there, At(Hook.POST_FORWARD, name)]
    for name, _, back in reversed(calls):
        step += [At(Hook.PRE_BACKWARD, name), back, *([At(Hook.POST_BACKWARD, name)] if name != "tokens" else [])]
    timeline = Timeline(Costs("h200", "nvlink", bandwidth))
    Sharding(timeline, {"tokens": first, **blocks, "head": last}, ranks).play(step)
    return timeline


def _bytes(module: torch.nn.Module) -> int:
    return sum(p.numel() * p.itemsize for p in module.parameters())


class _Costed(TorchDispatchMode):
    """The costs of operators on a GPU. Views have none."""

    def __init__(self):
        super().__init__()
        self.costs, self.calls = Costs("h200", "nvlink"), []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        if not any(returned.alias_info for returned in function._schema.returns) and tensors:
            self.calls.append(Work(*self.costs.of(str(function), [(list(x.shape), x.itemsize) for x in tensors])))
        return result


def _ends(model: torch.nn.Module, size: Size) -> list[list[Call]]:
    """The forwards of the embedding and of the head with the loss, and their backwards, last first."""
    blocks, model.blocks = model.blocks, torch.nn.ModuleList()
    ids = torch.zeros(size.batch, size.length, dtype=torch.int64, device="meta")
    with _Costed() as first:
        x = model.tokens(ids)
    through = x.detach().requires_grad_()
    model.tokens.forward = lambda _: through
    with _Costed() as last:
        loss = model(ids)
    with _Costed() as back:
        loss.backward()
    with _Costed() as end:
        x.backward(through.grad)
    model.blocks = blocks
    return [first.calls, last.calls, back.calls, end.calls]
