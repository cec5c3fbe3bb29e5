"""Where the tools write what they print."""

import os
import sys
from pathlib import Path


def write(text: str | bytes, path: str = "-") -> None:
    """Writes `text`, or bytes, to the file `path`, or to the standard output, whose reader may have seen enough (`| head`). Raises `OSError`."""
    if path != "-":
        Path(path).write_bytes(text.encode() if isinstance(text, str) else text)
        return
    try:
        sys.stdout.write(text) if isinstance(text, str) else sys.stdout.buffer.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end
