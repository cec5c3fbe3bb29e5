"""The program stage to Python: one readable module a graph."""

from .checks import Checks
from .launches import Launch, Plans
from .to_python import to_python

__all__ = ["Checks", "Launch", "Plans", "to_python"]
