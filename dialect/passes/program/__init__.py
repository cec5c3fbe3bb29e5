"""Passes of the program stage: order, buffers, memory of the calls of kernels. One pass a file."""
