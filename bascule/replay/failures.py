"""The error of a graph that was edited: the file that was is to blame, and not Bascule."""

import traceback

from ..errors import UnsupportedError, UserError


def failure_of_edit(error: Exception, file: str, running: str) -> UserError:
    """`error`, which the stage `running` raised after the edit of `file`, as one at that file."""
    if isinstance(error, UserError):
        plain = file in str(error) and not isinstance(error, UnsupportedError)  # the latter would have the graph split
        return error if plain else UserError(str(error), location=file)
    told = f"'{running}' fails after the edit: {type(error).__name__}: {error}"
    line = _line_of(error, file)
    return UserError(told, location=file if line is None else f"{file}:{line}")


def _line_of(error: Exception, file: str) -> int | None:
    """The line of the file that raised, or that does not parse."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return frames[-1] if frames else None
