"""Checks that a graph makes while it runs, as eager makes them: of indices, sizes and values."""
