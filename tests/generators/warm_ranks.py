"""Imports what the first compile of each process would: those of `ranks.py` are forks of one that has done so."""

import bascule.lowering.cpu.jit.compilation
import functorch.compile  # noqa: F401
import torch._dynamo.backends.common
import torch._export.db.logging
import torch.distributed._functional_collectives
import torch.distributed.tensor
import torch.export._trace  # noqa: F401
from bascule.dialect.passes import registry
from bascule.frontend.conversion.registry import load_rules

import bascule.cache.trace_cache
import bascule.compiler.custom_passes
import bascule.entry.backend  # noqa: F401

load_rules()
for name in registry.names():
    registry.find(name)
