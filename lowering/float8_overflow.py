"""Bits of numbers too large for an 8-bit float, as this PyTorch has them: of e4m3fn NaN, or since 2.13 the largest number."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


@cache
def bits_of_overflow(dtype: torch.dtype) -> int:
    """Without the sign, of a number too large for `dtype`; for types ending in FNUZ they include the sign."""

    def probe() -> int:
        return int(torch.tensor(1e30, device="cpu").to(dtype).view(torch.uint8))

    # In a thread of its own: graphs are compiled where operators make fake tensors, which have no bits.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(probe).result()
