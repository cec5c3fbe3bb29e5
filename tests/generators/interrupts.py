"""A job's time-out in the middle of a compile: what the signal's handler raises reaches the caller, and the next compile is right."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from types import FrameType
from unittest.mock import patch

import torch

from tests.generators import elementwise
from tests.generators.full_disks import PROGRAMS, results


class TimeUp(Exception):
    """A time-out of a scheduler's own."""


RAISED = (TimeUp, TimeoutError, RuntimeError, KeyboardInterrupt)
AGAIN = 0.002  # seconds until the next try, where the line at hand is not one of Bascule's


@dataclass(frozen=True)
class Case:
    program: str
    raised: type[BaseException]
    after: float  # seconds
    options: tuple[tuple[str, str], ...]
    gradients: bool
    cached: bool

    def source(self) -> str:
        return f"# tests.generators.interrupts\nassert not {self!r}.differences('bascule')\n"

    def smaller(self) -> Iterator["Case"]:
        if self.gradients:
            yield replace(self, gradients=False)
        if self.cached:
            yield replace(self, cached=False)

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule":
            return []
        function, collected = PROGRAMS[self.program], gc.isenabled()
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, BASCULE_CACHE_DIR=folder if self.cached else ""),
        ):
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=backend, options=dict(self.options))
            timer = _Timer(self.raised)
            found = []
            try:
                with timer.running(self.after):
                    self._run(compiled)
                if timer.place:
                    found.append(f"{self.raised.__name__}, raised at {timer.place}, was lost")
            except BaseException as error:  # what arrives is what is looked at
                if not (isinstance(error, self.raised) and _Timer.TEXT in str(error) and timer.place):
                    found.append(f"raised at {timer.place}, arrived as {type(error).__name__}: {error}")
            if gc.isenabled() != collected:
                found.append(f"raised at {timer.place}, the garbage collector is {'on' if gc.isenabled() else 'off'}")
                gc.enable()
            torch._dynamo.reset()
            for number, (ours, eager) in enumerate(zip(self._run(compiled), self._run(function), strict=True)):
                told = f"after {timer.place}, result {number}"
                found += elementwise.differences(told, ours, eager, ulps=64, sums=1024)
            return found

    def _run(self, function) -> list[torch.Tensor]:
        return results(function, 0, self.gradients)


class _Timer:
    """Raises `error` in the first line of Bascule's that the main thread is at when the time is over."""

    TEXT = "the time is up"

    def __init__(self, error: type[BaseException]):
        self.error = error
        self.place = ""  # where it was raised

    def running(self, after: float):
        self.before = signal.signal(signal.SIGALRM, self.handle)
        signal.setitimer(signal.ITIMER_REAL, after)
        return self

    def handle(self, number: int, frame: FrameType | None) -> None:
        module = frame.f_globals.get("__name__", "") if frame else ""
        if not module.startswith("bascule."):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        self.place = f"{module}:{frame.f_lineno}"
        raise self.error(self.TEXT)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)


def draw(random: Random) -> Case:
    options = tuple(random.choice([{}, {"target": "interpret"}]).items())
    return Case(
        random.choice([*PROGRAMS]),
        random.choice(RAISED),
        random.expovariate(3) + 0.001,
        options,
        random.random() < 0.4,
        random.random() < 0.5,
    )
