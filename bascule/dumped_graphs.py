"""Where reproducers written by 0.1 look for `replay`."""

from .entry.run_reproducer import replay

__all__ = ["replay"]
