"""Packages of `aot_compile` as they are read: the container, graphs and kernels in it, the exported program."""
