"""AOTAutograd without a compiler behind it."""

from collections.abc import Callable

import torch


def refuses(function: Callable[..., object], *inputs: torch.Tensor) -> bool:
    """Whether it does not take a function: torch 2.11 sees aliases in a `scan` in `cond`, or one that is differentiated."""
    torch._dynamo.reset()
    try:
        torch.compile(function, backend="aot_eager", fullgraph=True)(*inputs)
    except torch._dynamo.exc.BackendCompilerFailed:
        return True
    finally:
        torch._dynamo.reset()
    return False
