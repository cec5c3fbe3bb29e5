"""A first step on a CPU loads and runs what it needs, in a fresh process."""

import subprocess
import sys

import torch

from bascule.options import Options
from bascule.pipelines import DEFAULT, ON_GPUS, pipeline_for
from bascule.tools.graphs_at_stage import import_function

# Folders and modules that few compiles need, none of them the training step of a layer.
RARE = (
    "bascule.budget",
    "bascule.compiler.compile_split",
    "bascule.compiler.planned_programs",
    "bascule.cudagraphs.",
    "bascule.debugging.fx_source",
    "bascule.dialect.failures.reproducers",
    "bascule.dialect.interpreter.",
    "bascule.dialect.passes.products.",
    "bascule.dialect.scheduling.gpu.attention",
    "bascule.dialect.scheduling.gpu.contractions",
    "bascule.dialect.scheduling.gpu.planner",
    "bascule.dialect.scheduling.gpu.product_costs",
    "bascule.lowering.triton.",
    "bascule.manifest.",
    "bascule.replay.",
    "bascule.targets.cuda",
    "bascule.tiers.operators",
)


def test_a_first_step_on_a_cpu_imports_nothing_that_few_compiles_need():
    code = f"""
import sys, torch
layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
torch.compile(layer, backend="bascule", options={{"cache": False, "on_error": "raise"}})(torch.randn(2, 8, 32)).sum().backward()
print(*(name for name in sys.modules if name.startswith({RARE!r})))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert out.stdout.split() == []


def varied(x, w, image, kernel, index):
    """Products, attention, a convolution, a sum at indices, one over windows: what passes for GPUs look for."""
    attended = torch.softmax(x @ x.transpose(-1, -2), -1) @ x
    added = torch.zeros(8, 16).index_add(0, index, torch.relu(attended.reshape(-1, 16)) @ w)
    images = torch.nn.functional.conv2d(image, kernel, padding=1)
    return added.exp().sum(0), torch.nn.functional.avg_pool2d(images, 3, stride=1)


def test_the_passes_that_a_cpu_goes_without_change_nothing_there():
    inputs = [torch.randn(2, 6, 16), torch.randn(16, 16), torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)]
    leaves = [x.requires_grad_() for x in inputs]
    how = {"stage": "torch", "options": Options(), "grad": True, "dynamic": False}
    modules = import_function(varied, (*leaves, torch.arange(12) % 8), **how)
    spelled, ran = pipeline_for(Options(pipeline=",".join(DEFAULT)), {"target": "cpu"}), set()
    assert ON_GPUS.isdisjoint(stage.name for stage in pipeline_for(Options(), {"target": "cpu"}).stages)
    for module in modules:
        before = ""

        def look(when, stage, module):
            nonlocal before
            if stage.name in ON_GPUS:
                ran.add(stage.name)
                text = str(module)
                assert when == "before" or text == before, stage.name
                before = text

        spelled.run(module, observers=[look])
    assert len(modules) == 2 and ran == ON_GPUS
