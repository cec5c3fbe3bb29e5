"""Passes of the tensor stage: `bascule.compute` and calls, before kernels are formed. One pass a file."""
