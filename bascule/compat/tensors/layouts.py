"""Strides that PyTorch gives results, and the sizes of its interpolations. Checked on torch 2.11 to 2.14."""

from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import (
    is_non_overlapping_and_dense_or_false,
    make_contiguous_strides_for,
    suggest_memory_format,
)

__all__ = [
    "is_non_overlapping_and_dense_or_false",
    "make_contiguous_strides_for",
    "suggest_memory_format",
    "upsample_compute_output_size",
]
