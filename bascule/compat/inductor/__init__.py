"""Inductor's settings, its compiler, its trees of CUDA graphs, what its cache artifacts are."""
