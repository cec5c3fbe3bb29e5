"""AOTAutograd: its settings, its functions, what it knows of a graph, the parts of it that patches replace. Checked on torch 2.11 to 2.14."""

from collections.abc import Sequence
from typing import Any

from torch._C import _functionalization
from torch._functorch import config
from torch._functorch._aot_autograd import collect_metadata_analysis, graph_compile, runtime_wrappers
from torch._functorch._aot_autograd.schemas import MemoryFormatMeta, ViewAndMutationMeta
from torch._functorch.aot_autograd import aot_function, aot_module, aot_module_simplified

__all__ = [
    "MemoryFormatMeta",
    "ViewAndMutationMeta",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "collect_metadata_analysis",
    "config",
    "graph_compile",
    "runtime_wrappers",
    "strided_view",
]


def strided_view(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """`as_strided` as AOTAutograd notes a view, to make it again of another tensor; its inverse is what functionalization takes in a graph."""
    classes: Any = _functionalization  # whose stubs leave them out
    inverse = classes.InverseReturnMode.ViewOrScatterInverse
    return classes.as_strided_ViewMeta((False, True, inverse, list(size), list(stride), offset))
