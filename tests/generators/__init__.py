"""Generators of programs and of faults, one subject a module: a few fixed seeds run in CI, fresh ones by `make soak`.

A module with a function `draw(random) -> Case` is a generator of its name.
"""
