"""The min-cut partitioner, and the minifier of its graphs. Checked on torch 2.11 to 2.14."""

from torch._functorch import partitioners
from torch._functorch.fx_minifier import minifier
from torch.utils._ordered_set import OrderedSet

__all__ = [
    "OrderedSet",
    "minifier",
    "partitioners",
]
