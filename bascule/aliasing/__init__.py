"""Tensors over one memory where a functional graph cannot follow: overlapping writes, storage offsets, carried views."""
