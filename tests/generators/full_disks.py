"""Compiles on a full disk: files may have so many bytes and no more (RLIMIT_FSIZE), for Python, LLVM and the programs that Triton starts.

The answer is eager's, whatever could not be written; what was, is whole: the next compile finds it or does without.
"""

import os
import resource
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import ClassVar
from unittest.mock import patch

import torch
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass, add
from torch.nn import functional as F

from bascule.errors import DumpWarning, FallbackWarning
from tests.generators import elementwise

SIZES = (0, 1, 100, 1000, 2000, 4000, 8000, 20_000, 60_000)  # bytes: an entry of the cache has some thousand


@dataclass(frozen=True)
class Raises(Pass):
    """A pass that fails: the compile writes a reproducer."""

    name: ClassVar[str] = "raises-on-a-full-disk"

    def run(self, module: ir.Module) -> None:
        raise KeyError("injected")


add(Raises)
OPTIONS = ({}, {"target": "interpret"}, {"dump": "dump"}, {"pipeline": f"torch-to-bascule,{Raises.name}"})
PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "softmax": lambda x, y: torch.softmax(x * 2 + y, -1).sum(0),
    "norm": lambda x, y: F.layer_norm(x, (32,)) @ y.t(),
    "gather": lambda x, y: x[(y[:, 0] > 0).long()] * y,
}


def results(function: Callable, seed: int, gradients: bool) -> list[torch.Tensor]:
    """The results of `function`, one of `PROGRAMS`, for the inputs of a seed, and their gradients if they are asked for."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(8, 32, generator=generator, requires_grad=gradients) for _ in range(2))
    out = function(x, y)
    if not gradients:
        return [out]
    out.square().sum().backward()
    return [out.detach(), x.grad, y.grad]


@dataclass(frozen=True)
class Case:
    program: str
    limit: int  # bytes
    options: tuple[tuple[str, str], ...]
    gradients: bool
    seed: int

    def source(self) -> str:
        return f"# tests.generators.full_disks\nassert not {self!r}.differences('bascule')\n"

    def smaller(self) -> Iterator["Case"]:
        if self.gradients:
            yield replace(self, gradients=False)
        if self.options:
            yield replace(self, options=())

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule":
            return []
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, BASCULE_CACHE_DIR=f"{folder}/cache"):
            options = dict(self.options)
            if "dump" in options:
                options["dump"] = f"{folder}/dump"
            want = self._run(PROGRAMS[self.program])
            found = []
            for when, limit in (("on a full disk", self.limit), ("with room again", None), ("from what is kept", None)):
                torch._dynamo.reset()
                with warnings.catch_warnings(), _files_of(limit):
                    for category in (DumpWarning, FallbackWarning):
                        warnings.simplefilter("ignore", category)
                    got = self._run(torch.compile(PROGRAMS[self.program], backend=backend, options=options))
                for number, (ours, eager) in enumerate(zip(got, want, strict=True)):
                    found += elementwise.differences(f"{when}, result {number}", ours, eager, ulps=64, sums=1024)
            found += [f"left behind: {path}" for path in Path(folder).rglob("*.unfinished*")]
            return found

    def _run(self, function: Callable) -> list[torch.Tensor]:
        return results(function, self.seed, self.gradients)


@contextmanager
def _files_of(limit: int | None) -> Iterator[None]:
    """No file grows beyond `limit` bytes inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if limit is None else limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def draw(random: Random) -> Case:
    options = tuple(random.choice(OPTIONS).items())
    return Case(
        random.choice([*PROGRAMS]), random.choice(SIZES), options, random.random() < 0.3, random.randrange(1 << 30)
    )
