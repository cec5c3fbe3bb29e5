"""The errors and warnings that a user of Bascule meets."""

from .dialect.errors import BasculeError, CompilerError, UnsupportedError, UserError


class FallbackWarning(UserWarning):
    """A graph was not compiled and runs otherwise; the text says why and names the reproducer."""


__all__ = ["BasculeError", "CompilerError", "FallbackWarning", "UnsupportedError", "UserError"]
