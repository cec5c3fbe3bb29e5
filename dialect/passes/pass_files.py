"""Python files that hold passes and are no part of a package: `--load-pass=path/to/file.py:Class`."""

import sys
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ..errors import UserError

_PREFIX = "pass_file_"  # of the names under which Python knows such modules: none is a package's


def is_file(name: str) -> bool:
    """Whether `name`, the part of a specification before the colon, is a file and no module."""
    return name.endswith(".py")


def import_file(path: str) -> ModuleType:
    """The module in the file, run when it is first asked for. Raises `UserError` if there is none, and what it raises."""
    file = Path(path).resolve()
    name = f"{_PREFIX}{sha256(str(file).encode()).hexdigest()[:16]}_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise UserError(f"there is no file '{path}'", hint="give a pass as path/to/file.py:Class")
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def specification(cls: type) -> str:
    """What `--load-pass` takes for a pass class: `module:Class`, or the file that it was loaded from."""
    file = sys.modules[cls.__module__].__file__ if cls.__module__.startswith(_PREFIX) else None
    return f"{file or cls.__module__}:{cls.__qualname__}"
