"""A training step within a memory budget: the peak of its programs, and the report of what holds it."""
