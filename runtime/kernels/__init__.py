"""Kernels as they are loaded and launched: ELF objects, the CUDA driver, launch plans, threads, measuring."""
