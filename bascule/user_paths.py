"""Paths that users give, to options, functions and environment variables: a `~` before one is a home directory, as in a shell, where no shell
has read it. That of another user too (`~name`). A folder of such a name is `./~`."""

import os

from .dialect.interrupts import pass_on
from .errors import UserError
from .option_checks import shown


def in_home(path: str | os.PathLike[str]) -> str | None:
    """`path` from the home directory on that it begins with; as it is without one. None where there is no such home directory."""
    given = os.fspath(path)
    try:
        found = os.path.expanduser(given)
    except ValueError as error:  # no user has such a name: a zero byte, half a character
        pass_on(error)
        return None
    return None if given.startswith("~") and found == given else found


def user_path(path: str | os.PathLike[str], location: str) -> str:
    """`in_home(path)`. Raises `UserError` at `location` where there is no such home directory."""
    found = in_home(path)
    if found is None:
        home = os.fspath(path).partition(os.sep)[0]
        raise UserError(
            f"there is no home directory {shown(home)}", location=location, hint="a folder of that name begins with ./"
        )
    return found
