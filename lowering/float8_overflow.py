"""Bits of numbers too large for an 8-bit float, as this PyTorch has them: of e4m3fn NaN, or since 2.13 the largest number."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def bits_of_overflow(dtype: str) -> int:
    """Without the sign, of a number too large for torch's `dtype`, as "float8_e5m2"; for types ending in FNUZ they include the sign."""
    import torch  # the only part of the lowering to Triton that needs it

    def probe() -> int:
        return int(torch.tensor(1e30, device="cpu").to(getattr(torch, dtype)).view(torch.uint8))

    # In a thread of its own: graphs are compiled where operators make fake tensors, which have no bits.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(probe).result()
