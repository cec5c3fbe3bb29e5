"""PyTorch's tables of decompositions. Checked on torch 2.11 to 2.14."""

from torch import _decomp as decomposition_tables
from torch._prims import rng_prims  # defines rngprims.philox_rand

__all__ = ["decomposition_tables", "rng_prims"]
