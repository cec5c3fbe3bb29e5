"""Hooks by their name, for command lines: `module:Class` or `path/to/file.py:Class`."""

from ..errors import UserError
from ..passes.user_classes import load_class
from .hooks import Hooks


def load_hooks(spec: str) -> Hooks:
    """An object of the class that `spec` names. Raises `UserError` for what is no such class."""
    cls = load_class(spec, "hooks")
    if not (isinstance(cls, type) and issubclass(cls, Hooks)):
        raise UserError(f"{cls!r} is no subclass of bascule.dialect.steering.hooks.Hooks", location=spec)
    try:
        return cls()
    except TypeError as error:
        raise UserError(f"{cls!r} takes arguments: {error}", location=spec) from None
