"""The program stage to Python: one readable module a graph."""

from .launches import Launch, Plans
from .to_python import to_python

__all__ = ["Launch", "Plans", "to_python"]
