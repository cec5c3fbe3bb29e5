"""Files for whoever looks into a compile: dumps, drawings, reproducers. The compile goes on where one cannot be written."""

import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from ..dialect.interrupts import pass_on, tolerating
from ..errors import DumpWarning


def written(path: Path, content: str | bytes) -> bool:
    """Writes a file, and the folders above it; whether the disk took it. Where not, nothing of it is left, and a warning says why."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
    except OSError as error:
        pass_on(error)
        with tolerating(OSError):
            path.unlink(missing_ok=True)
        _warn(path.parent, error)
        return False
    return True


def in_order(path: Path) -> list[Any]:
    """A key for folders of graphs: forward before backward, graph2 before graph10."""
    parts = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]
    return [parts[:2], path.name.endswith("backward"), parts]


def fresh_folder() -> Path | None:
    """A new one for temporary files; None, after a warning, where there can be none."""
    try:
        return Path(tempfile.mkdtemp(prefix="bascule-"))
    except OSError as error:
        pass_on(error)
        _warn("$TMPDIR", error)
        return None


def not_written(folder: Path, error: Exception) -> None:
    """Warns that what `error` stopped is not in `folder`."""
    _warn(folder, error)


def _warn(folder: Path | str, error: Exception) -> None:
    warnings.warn(
        f"'{folder}' does not take what is dumped: {getattr(error, 'strerror', None) or error}",
        DumpWarning,
        stacklevel=3,
    )
