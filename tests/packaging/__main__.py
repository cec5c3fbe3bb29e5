"""`make wheel`: builds wheels into `dist`, and tests them in clean virtual environments, on every Python at hand.

From Python 3.12 on one wheel of the stable ABI serves all versions; 3.11 has a wheel of its own.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
CHECK = Path(__file__).with_name("installed_check.py")
MINORS = range(11, 16)  # of the versions 3.x that are looked for
STABLE = 12  # the first with nanobind's stable ABI


@dataclass(frozen=True)
class Python:
    minor: int
    path: str

    @property
    def abi(self) -> str:
        """The part of a wheel's name that says which Pythons it serves."""
        return "abi3" if self.minor >= STABLE else f"cp3{self.minor}"


class Environment:
    """A virtual environment in `folder`."""

    def __init__(self, folder: Path, python: Python):
        self.bin, self.folder = folder / "environment" / "bin", folder
        run([python.path, "-m", "venv", str(self.bin.parent)], folder)

    def pip(self, *words: str) -> None:
        """Runs pip, whose build tools are those of the environment."""
        run(
            [str(self.bin / "python"), "-m", "pip", *words],
            self.folder,
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
        )

    def install(self, *words: str) -> None:
        """Installs what is named in the tested versions."""
        self.pip(
            "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints" / "newest.txt"), *words
        )


def main() -> int:
    found = list(pythons())
    if not found:
        print(f"there is no Python 3.{MINORS.start} or later", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    wheels: dict[str, Path] = {}
    for python in found:
        if python.abi not in wheels:
            wheels[python.abi] = build(python)
            print(f"built {wheels[python.abi].relative_to(ROOT)}", flush=True)
    for python in found:
        check(python, wheels[python.abi])
        print(f"{wheels[python.abi].name} works on Python 3.{python.minor}", flush=True)
    return 0


def pythons() -> Iterator[Python]:
    """One of each version, from PATH or pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(versions.iterdir()) if versions.is_dir() else []
    for minor in MINORS:
        name = f"python3.{minor}"
        own = [str(folder / "bin" / name) for folder in kept if re.fullmatch(rf"3\.{minor}\.\d+", folder.name)]
        runs = (path for path in [shutil.which(name), *own] if path is not None and _runs(path))
        path = next(runs, None)
        if path is not None:
            yield Python(minor, path)


def _runs(path: str) -> bool:
    """Whether there is a Python behind a name: pyenv puts names on PATH of versions that are not chosen."""
    return subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0


def build(python: Python) -> Path:
    """The wheel that `python` builds, in `dist`. Its native launcher has to be built."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = Environment(folder, python)
        environment.install("scikit-build-core", "cmake", "ninja", "nanobind")
        settings = ["-C", f"build-dir={folder / 'build'}", "-C", "cmake.define.BASCULE_NATIVE=ON"]
        environment.pip(
            *("wheel", "--quiet", "--no-deps", "--no-build-isolation", *settings, "-w", str(folder / "dist"), str(ROOT))
        )
        (made,) = (folder / "dist").iterdir()
        if f"-{python.abi}-" not in made.name:
            raise SystemExit(f"{made.name} is no wheel of {python.abi}")
        return Path(shutil.copy(made, DIST))


def check(python: Python, wheel: Path) -> None:
    """Installs a wheel with what it depends on, and runs `installed_check.py` beside nothing of the source tree."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = Environment(folder, python)
        environment.install(str(wheel))
        run(
            [str(environment.bin / "python"), "-I", str(CHECK), str(ROOT)],
            folder,
            BASCULE_CACHE_DIR=str(folder / "cache"),
        )


def run(command: list[str], folder: Path, **variables: str) -> None:
    """Runs a command in `folder`, in an environment from which no other package comes."""
    given = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    done = subprocess.run(command, cwd=folder, env=given | variables)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
