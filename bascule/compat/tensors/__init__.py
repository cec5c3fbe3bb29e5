"""Tensors and the memory under them: fake ones, functional ones, wrapped ones, trees of them."""
