"""A disk cache that was damaged, forged, swapped, given away, or that the file system refuses: answers stay right, what is not the cache's own
is never loaded, and who cannot use it is told once. Also several processes at one time: `cache_writers.py`, `cache_strangers.py`."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

import torch

import bascule
from bascule.errors import CacheWarning
from tests.generators import cache_strangers, cache_writers
from tests.generators.cache_damages import DAMAGES, Damage
from tests.generators.cache_places import DIRECTORIES, SYSTEM
from tests.generators.cases import Case
from tests.generators.elementwise import differences

FAULTS = {**DAMAGES, **DIRECTORIES, **SYSTEM}


def _computed(x):
    return torch.softmax(x.sin(), -1).cumsum(0)


def _other(x):
    return (x * x).tanh().sum(0)


@dataclass(frozen=True)
class Faults:
    """One fault before, or, where the file system is at fault, while a graph is looked up. `kind`: of the entry that is damaged."""

    fault: str
    kind: str
    seed: int

    def source(self) -> str:
        return (
            "from tests.generators.cache_faults import Faults\n\n\n"
            f"def test_it():\n    assert not {self!r}.differences('bascule')\n"
        )

    def smaller(self) -> Iterator["Faults"]:
        return iter(())

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule":
            return []
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, BASCULE_CACHE_DIR=f"{folder}/cache"):
            return self._found(Path(folder) / "cache", FAULTS[self.fault])

    def _found(self, root: Path, damage: Damage) -> list[str]:
        random = Random(self.seed)
        if damage.full:
            shutil.copytree(_filled(), root, symlinks=True)
        with ExitStack() as stack:
            damage.does(root, self.kind, random, stack)
            found, counters, told = _called(random)
        if len(told) != damage.warns:
            found.append(f"{len(told)} warnings, not {damage.warns}: {told}")
        if damage.spoils and counters[{"graphs": "cache", "traces": "traces"}[self.kind]].get("hit"):
            found.append(f"a spoiled entry was loaded: {counters}")
        if (root.parent / "ran").exists():
            found.append("a forged entry ran")
        if damage.mended:
            again, counters, told = _called(random)
            found += again + told
            if not counters["traces"].get("hit"):
                found.append(f"the cache was not mended: {counters}")
        return found


def draw(random: Random) -> Case:
    chosen = random.random()
    if chosen < 0.25:
        return cache_writers.drawn(random)
    if chosen < 0.35:
        return cache_strangers.drawn(random)
    possible = [name for name, damage in FAULTS.items() if os.getuid() == 0 or not damage.root]
    return Faults(random.choice(possible), random.choice(["graphs", "traces"]), random.randrange(1 << 30))


def _called(random: Random) -> tuple[list[str], dict[str, dict[str, int]], list[str]]:
    """Makes a first call; returns what is wrong with its results, what was counted, and the warnings about the cache."""
    from bascule.reporting.counters import reset_counters

    torch._dynamo.reset()
    reset_counters()
    x = torch.tensor([random.uniform(-3, 3) for _ in range(40)]).view(5, 8)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        got = torch.compile(_computed, backend="bascule", options={"on_error": "raise"})(x)
    found = differences("the result", got, _computed(x), _computed(x.double()), sums=8)
    return found, bascule.counters(), [str(one.message) for one in given if one.category is CacheWarning]


@cache
def _filled() -> Path:
    """A cache with two graphs. It goes when the process ends."""
    folder = tempfile.TemporaryDirectory()
    _kept.append(folder)
    root = Path(folder.name) / "cache"
    with patch.dict(os.environ, BASCULE_CACHE_DIR=str(root)):
        for function in (_other, _computed):
            torch._dynamo.reset()
            torch.compile(function, backend="bascule", options={"on_error": "raise"})(torch.ones(5, 8))
    return root


_kept: list[tempfile.TemporaryDirectory] = []
