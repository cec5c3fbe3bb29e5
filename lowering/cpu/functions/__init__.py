"""Functions of values on a CPU: polynomials, tables, transcendental functions, kinds of reductions."""
