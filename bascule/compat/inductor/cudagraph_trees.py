"""PyTorch's trees of CUDA graphs. Checked on torch 2.11 to 2.14.

Importing the trees costs a second, due only where graphs are replayed: each function imports what it needs.
"""

import sys
from typing import Any

_TREES = "torch._inductor.cudagraph_trees"


def trees() -> Any:
    """The module of the trees."""
    from torch._inductor import cudagraph_trees

    return cudagraph_trees


def loaded_trees() -> Any:
    """The module of the trees; None if nobody has imported it."""
    return sys.modules.get(_TREES)


def cudagraphify(*args: Any, **named: Any) -> Any:
    """Inductor's function of this name."""
    from torch._inductor import compile_fx

    return compile_fx.cudagraphify(*args, **named)


def placeholder_info(*args: Any) -> Any:
    """The description of an input: name, stack trace, users, the line that writes it."""
    from torch._inductor.cudagraph_utils import PlaceholderInfo

    return PlaceholderInfo(*args)


__all__ = ["cudagraphify", "loaded_trees", "placeholder_info", "trees"]
