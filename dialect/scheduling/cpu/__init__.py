"""Schedules of kernels on a CPU: what is legal, what it costs, the form of the attribute."""
