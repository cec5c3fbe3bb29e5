"""A whole CPU kernel: loops, tiles, families of loops, reductions, transposition, its entry."""
