"""Scatters of whole rows as sorted segment sums: recognized, sorted, summed."""
