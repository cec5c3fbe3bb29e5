"""Helpers of the rules: operands, axes, scalars, index values, loops, requirements. No rule of its own."""
