"""Small arenas on a GPU, kept between the calls of a graph with all the views that its program needs of them.

A program of many small products (one token through a language model) makes some hundred views of its arena, half a microsecond each.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_capturing = torch.cuda.is_current_stream_capturing
_apart = 0  # how many calls in this process run under recordings


def kept_layouts() -> Callable[[int], list[Any]]:
    """The layouts of one program that are free: a function from a stream, which work on them is in the order of, to a list. What is made in
    inference mode serves there alone: operators write to such tensors nowhere else.

    Who takes one pops it and appends it when its last work is on the stream; one that is not appended (the call raised) is freed. While a CUDA
    graph is recorded the list is one that nobody else sees: a recording has memory of its own.
    """
    free: defaultdict[tuple[int, bool], list[Any]] = defaultdict(list)

    def kept(stream: int) -> list[Any]:
        return [] if _apart or _capturing() else free[stream, torch.is_inference_mode_enabled()]

    return kept


@contextmanager
def memory_apart() -> Iterator[None]:
    """Programs called meanwhile, in any thread, take no arena that was kept and keep none."""
    global _apart
    _apart += 1
    try:
        yield
    finally:
        _apart -= 1
