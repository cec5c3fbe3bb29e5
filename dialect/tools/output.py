"""Where the tools write what they print."""

import os
import sys
import tempfile
from pathlib import Path

from ..interrupts import pass_on


def write(text: str | bytes, path: str = "-") -> None:
    """Writes `text`, or bytes, to the file `path`, or to the standard output, whose reader may have seen enough (`| head`). Raises `OSError`."""
    if path != "-":
        _write_whole(text.encode() if isinstance(text, str) else text, Path(path))
        return
    try:
        sys.stdout.write(text) if isinstance(text, str) else sys.stdout.buffer.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end


def _write_whole(data: bytes, path: Path) -> None:
    """Writes a file at once: it is the old one, or the new one. What is no file (a pipe, /dev/null) takes what comes."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()  # of a link, the file that it leads to
    try:
        descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        pass_on(error)
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(made, path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
