"""The errors and warnings that a user of Bascule meets."""

from .dialect.errors import BasculeError, CompilerError, UnsupportedError, UserError


class FallbackWarning(UserWarning):
    """A graph was not compiled and runs otherwise; the text says why and names the reproducer."""


class FreezingWarning(UserWarning):
    """The option `freezing` is not followed for a graph, or no more; the text says why and what to change."""


class ReplayWarning(UserWarning):
    """A graph is not replayed as a CUDA graph, or no more of it is; the text says why and what to change."""


__all__ = [
    "BasculeError",
    "CompilerError",
    "FallbackWarning",
    "FreezingWarning",
    "ReplayWarning",
    "UnsupportedError",
    "UserError",
]
