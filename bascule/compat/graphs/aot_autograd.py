"""AOTAutograd: its settings, its functions, what it knows of a graph, the parts of it that patches replace. Checked on torch 2.11 to 2.14."""

from torch._functorch import config
from torch._functorch._aot_autograd import graph_compile, runtime_wrappers
from torch._functorch._aot_autograd.schemas import MemoryFormatMeta, ViewAndMutationMeta
from torch._functorch.aot_autograd import aot_function, aot_module, aot_module_simplified

__all__ = [
    "MemoryFormatMeta",
    "ViewAndMutationMeta",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "config",
    "graph_compile",
    "runtime_wrappers",
]
