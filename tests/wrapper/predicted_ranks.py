"""Graphs of one rank of several, traced and compiled in one process that never runs them, and what the simulator says of them."""

import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import torch
import torch.distributed as dist
from bascule.dialect.ir import context
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.importer.graph import import_graph
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore  # Checked on torch 2.13.

from bascule.options import Options
from bascule.pipelines import up_to
from bascule.reporting.graph_summary import Overlap
from bascule.reporting.module_summary import overlap
from benchmarks.rank_models import MODELS, SIZES, WAYS


class _Stop(Exception):
    """The graphs are there."""


def predictions(
    model: str, way: str, passes: dict[str, str] | None = None, ranks: int = 8, **changed: int
) -> Sequence[Overlap]:
    """Prediction for the forward and the backward of `model` on a GPU, distributed as `way` says. `passes`: name -> text of those that
    are to have options. `changed`: fields of its size. In a process of its own where this one has a group of ranks."""
    if dist.is_initialized():
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(predictions, model, way, passes, ranks, **changed).result()
    size = replace(SIZES[model], **changed)
    default = up_to("program", Options(), {"target": "cuda", "capability": 90})
    told = [(passes or {}).get(stage.name, stage.spelling()) for stage in default.stages]
    pipeline = type(default).parse(",".join(text for text in told if text))
    modules = []

    def compiler(gm, example_inputs, **kind):
        modules.append(import_graph(gm, example_inputs, context=context()).module)
        pipeline.run(modules[-1])
        return stop

    def stop(*_):
        raise _Stop

    def backend(gm, example_inputs):
        compile_with_autograd(gm, example_inputs, compiler, decomposition_table())
        return stop

    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    torch._functorch.config.force_non_lazy_backward_lowering = True
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        with torch.device("meta"):
            whole = MODELS[model](size).to(size.dtype)
        call = WAYS[way](whole, init_device_mesh("cpu", (ranks,)), lambda f: torch.compile(f, backend=backend))
        whole.to_empty(device="cpu")
        call(torch.zeros(size.batch, size.length, dtype=torch.int64))
    except _Stop:
        pass
    finally:
        dist.destroy_process_group()
    return [overlap(module) for module in modules]
