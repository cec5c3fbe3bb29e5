"""Values of a Triton kernel: the builder, tiles, scalars, precision, reductions, clusters."""
