"""The policy of CUDA graphs: what is captured, what is not and why, how large the pool is.

Capture and replay themselves are in `runtime/cudagraphs`.
"""
