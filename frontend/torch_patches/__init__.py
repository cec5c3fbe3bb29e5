"""Changes to PyTorch's own tables and functions while a graph is traced: one a file, undone afterwards."""
