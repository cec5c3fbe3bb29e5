"""The ATen tier: what runs a graph while its kernels are compiled beside it, and when the step changes over.

`operators.py` makes the tier, `background.py` compiles, `changeover.py` decides which of both a call runs.
"""
