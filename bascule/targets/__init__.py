"""Where a graph runs and how its kernels are made: placement of devices, CPU, CUDA, the TTIR interpreter."""
