"""Schedules for a GPU that `max_autotune` measures: neighbours of a kernel's own, and those of a product beside ATen's call."""
