"""The errors and warnings that a user of Bascule meets."""

from .dialect.errors import BasculeError, CompilerError, UnsupportedError, UserError


class CacheWarning(UserWarning):
    """The disk cache, the remote one, or what was given to it, is not used; the text says why and what to change."""


class FallbackWarning(UserWarning):
    """A graph was not compiled and runs otherwise; the text says why and names the reproducer."""


class DumpWarning(UserWarning):
    """A file that an option, a debugging backend or a failure asks for could not be written; the text says why."""


class FreezingWarning(UserWarning):
    """The option `freezing` is not followed for a graph, or no more; the text says why and what to change."""


class ReplayWarning(UserWarning):
    """A graph is not replayed as a CUDA graph, or no more of it is; the text says why and what to change."""


__all__ = [
    "BasculeError",
    "CacheWarning",
    "CompilerError",
    "DumpWarning",
    "FallbackWarning",
    "FreezingWarning",
    "ReplayWarning",
    "UnsupportedError",
    "UserError",
]
