"""Cases of the generators: how one is drawn, run, judged and made smaller."""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

import tests.generators

refusals = Counter[str]()  # documented refusals, by what they say: cases that are not compared


class Case(Protocol):
    """Something to try, drawn from a seed."""

    def source(self) -> str:
        """Python text of a test that shows it again by itself."""

    def differences(self, backend: str) -> list[str]:
        """The differences of `backend` from eager, a line each. An exception is one of them."""

    def smaller(self) -> Iterator["Case"]:
        """Cases with less in them, the smallest first."""


@dataclass(frozen=True)
class Finding:
    """A case that differs, made as small as it could be."""

    case: Case
    differences: list[str]
    pytorch: bool  # `aot_eager` differs too: the fault is not in the backend

    def text(self) -> str:
        lines = [line for found in self.differences for line in found.splitlines()]
        return "".join(f"# {line}\n" for line in lines) + self.case.source()


def generators() -> dict[str, Callable[[Random], Case]]:
    """By name."""
    modules = [importlib.import_module(f"{tests.generators.__name__}.{m.name}") for m in _candidates()]
    return {m.__name__.rpartition(".")[2]: m.draw for m in modules if hasattr(m, "draw")}


def _candidates() -> list[pkgutil.ModuleInfo]:
    return [m for m in pkgutil.iter_modules(tests.generators.__path__) if m.name not in ("__main__", "test_generators")]


def tried(case: Case, backend: str = "bascule") -> list[str]:
    """Its differences; an exception of the comparison itself counts as one."""
    try:
        return case.differences(backend)
    except Exception as error:  # is what was looked for: it is written down, and the other cases run
        return [f"{type(error).__name__}: {error}"]


def check(case: Case, steps: int = 60) -> Finding | None:
    """Runs a case; returns what is wrong with it, after at most `steps` attempts at a smaller one; None where it agrees with eager."""
    found = tried(case)
    if not found:
        return None
    if tried(case, "aot_eager"):
        return Finding(case, found, pytorch=True)
    improved = True
    while improved:
        improved = False
        for smaller in case.smaller():
            if steps == 0:
                break
            steps -= 1
            if (still := tried(smaller)) and not tried(smaller, "aot_eager"):
                case, found, improved = smaller, still, True
                break
    return Finding(case, found, pytorch=False)
