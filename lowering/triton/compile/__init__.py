"""TTIR to a cubin: Triton's compiler, ptxas, edits of PTX, the cache of kernels, what `--emit` prints."""
