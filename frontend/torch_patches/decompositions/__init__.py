"""Decompositions of PyTorch's that are put right, or operators left whole, while it traces: one kind a file."""
