"""Schedules of kernels on a GPU: the machine, domains and loop walks, rows, columns, clusters, products."""
