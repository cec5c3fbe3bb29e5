"""Passes of the kernel stage: kernels are formed, cut, joined and scheduled. One pass a file."""
