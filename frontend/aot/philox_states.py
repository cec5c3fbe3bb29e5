"""Random numbers of a seed and an offset that are inputs of a graph, as `torch._functorch.config.functionalize_rng_ops` makes them.

AOTAutograd gives such a graph the state of the GPU's generator, and sets the generator to the offset that the graph returns. Private operator of
PyTorch; checked on torch 2.11 and 2.13.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims import rng_prims  # noqa: F401  # defines the operator

ODD = -0x61C8864680B583EB  # the golden ratio of 2**64: neighbouring offsets of one seed are streams far apart
STEP = 4  # what an operator adds to the offset; a generator takes multiples of 4


def philox_rand(
    size: Sequence[Any],
    seed: torch.Tensor,
    offset: torch.Tensor,
    stride: Sequence[int] | None = None,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers from 0 to 1, the same for the same state; and how far the state goes on. `seed` and `offset`: int64, of no dimensions."""
    stream = (seed + offset * ODD).to(device)
    numbers = torch.ops.prims.inductor_random(list(size), stream, "rand")
    return numbers.to(dtype or torch.float32), torch.full((), STEP, dtype=torch.int64, device=seed.device)


DECOMPOSITIONS: dict[Any, Callable] = {torch.ops.rngprims.philox_rand.default: philox_rand}
