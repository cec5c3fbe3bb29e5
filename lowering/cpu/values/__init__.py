"""Values of a CPU kernel: the builder, scalars, lanes, narrow floats, addresses, conditions; the width of its registers."""
