"""The dialect to what runs: kernels for CPUs and for GPUs, and the Python program that calls them."""
