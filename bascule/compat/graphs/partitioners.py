"""The min-cut partitioner, graph modules that make their code when asked, and the minifier of such graphs. Checked on torch 2.11 to 2.14."""

from torch._functorch import partitioners
from torch._functorch.fx_minifier import minifier
from torch.fx._lazy_graph_module import _LazyGraphModule as LazyGraphModule
from torch.fx._lazy_graph_module import _make_graph_module as make_graph_module
from torch.fx._lazy_graph_module import _use_lazy_graph_module as use_lazy_graph_module
from torch.utils._ordered_set import OrderedSet

__all__ = [
    "LazyGraphModule",
    "OrderedSet",
    "make_graph_module",
    "minifier",
    "partitioners",
    "use_lazy_graph_module",
]
