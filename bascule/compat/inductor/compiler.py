"""Inductor as a compiler of graphs. Importing it costs seconds. Checked on torch 2.11 to 2.14."""

from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table

__all__ = ["compile_fx_inner", "select_decomp_table"]
