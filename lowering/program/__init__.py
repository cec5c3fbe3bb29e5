"""The program stage to Python: one readable module a graph."""

from .to_python import to_python

__all__ = ["to_python"]
