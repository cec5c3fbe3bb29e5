"""Classes of a user's own by their names: `module:Class`, or `path/to/file.py:Class` for a file that is no part of a package."""

import os
import sys
from hashlib import sha256
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import UserError
from .interrupts import pass_on

_PREFIX = "user_file_"  # of the names under which Python knows such modules: none is a package's


def load_class(spec: str, what: str) -> Any:
    """Class that `spec` names, a "pass" for example. Modules in the current directory are found, as with `python -m`. Raises `UserError`."""
    module, _, name = spec.rpartition(":")
    if not (module and name):
        raise UserError(f"'{spec}' names no {what}", hint="give it as module:Class, or as path/to/file.py:Class")
    on_path(os.getcwd())
    try:
        return getattr(import_file(module) if module.endswith(".py") else import_module(module), name)
    except UserError as error:
        raise UserError(f"cannot load the {what} '{spec}': {error.message}", hint=error.hint) from None
    except ModuleNotFoundError as error:
        hint = "a module is looked for in the current directory, in $PYTHONPATH and among what is installed"
        raise UserError(f"cannot load the {what} '{spec}': {error}", hint=hint) from None
    except Exception as error:  # the user's module raises whatever it raises
        pass_on(error)
        raise UserError(f"cannot load the {what} '{spec}': {type(error).__name__}: {error}") from error


def on_path(folder: str) -> None:
    """Has modules in `folder` found, after all others."""
    if folder not in sys.path:
        sys.path.append(folder)


def import_file(path: str) -> ModuleType:
    """The module in the file, run when it is first asked for; it may import what is beside it, as a script may. Raises `UserError` if there is
    none, and what it raises."""
    file = Path(path).resolve()
    name = f"{_PREFIX}{sha256(str(file).encode()).hexdigest()[:16]}_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise UserError(f"there is no file '{path}'", hint="give it as path/to/file.py:Class")
    on_path(str(file.parent))
    return run_file(file, name)


def import_script(path: str) -> ModuleType:
    """`import_file`, under the name by which what is beside it imports it too, if that name leads there: what it registers says so."""
    file = Path(path).resolve()
    on_path(str(file.parent))
    known = sys.modules.get(file.stem)
    found = find_spec(file.stem) if known is None and file.stem.isidentifier() else None
    place = found.origin if found is not None else getattr(known, "__file__", None)
    return import_module(file.stem) if place is not None and Path(place).resolve() == file else import_file(path)


def run_file(file: Path, name: str) -> ModuleType:
    """The module in `file`, whatever its suffix, run as `name`. Its classes find it by that, as dataclasses do. Raises what it raises."""
    loader = SourceFileLoader(name, str(file))
    spec = spec_from_loader(name, loader)
    assert spec is not None  # of a file it is one
    module = sys.modules[name] = module_from_spec(spec)
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def specification(cls: type) -> str:
    """Spelling of a pass class for `--load-pass`: `module:Class`, or the file that it was loaded from."""
    file = sys.modules[cls.__module__].__file__ if cls.__module__.startswith(_PREFIX) else None
    return f"{file or cls.__module__}:{cls.__qualname__}"
