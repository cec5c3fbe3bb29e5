"""Whose a failure is: the pass that ran or that had run, whether a user wrote it, and the op that it was at.

The exception keeps its type on its way to who asked for the pass; what is known of the failure travels with it.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from ..interrupts import tolerating
from ..ir.locations import source_of
from ..mlir import ir

_KEY = "bascule_failure"


@dataclass(frozen=True)
class Failure:
    """The pass `name`, called as `culprit` says ("your pass 'mine' (mine.py:12)"); `foreign`: not one of Bascule's or MLIR's. `number`: which
    of the pipeline's passes, from 0.

    `left`: it had run, and the IR that it left does not verify. `source`: the op it was at. `before`: passes of the user's that ran before,
    and those whose IR nobody verified.
    """

    name: str
    culprit: str
    foreign: bool
    number: int
    left: bool = False
    source: str | None = None
    before: tuple[str, ...] = ()

    def told(self) -> str:
        after = f", after {', '.join(self.before)}" if self.before else ""
        return f"{self.culprit} left IR that does not verify{after}" if self.left else f"in {self.culprit}{after}"


def is_foreign(stage: Any) -> bool:
    """Whether a pass is from outside of Bascule and MLIR."""
    return not type(stage).__module__.startswith("bascule.")


def called(stage: Any) -> str:
    """The pass by its name, and its file and line where it is a user's."""
    if is_foreign(stage):
        return f"your pass '{stage.name}' ({written_at(type(stage))})"
    return f"MLIR's pass '{stage.name}'" if not hasattr(stage, "from_options") else f"the pass '{stage.name}'"


def written_at(cls: type) -> str:
    """Where a pass is written: the file, from the current directory if it is below, and the line of its `run`."""
    code = getattr(getattr(cls, "run", None), "__code__", None)
    if code is None:
        return cls.__module__
    path = os.path.relpath(code.co_filename)
    return f"{code.co_filename if path.startswith(os.pardir) else path}:{code.co_firstlineno}"


def subject_of(module: ir.Module) -> str:
    """The name of a module in a traceback: the file that it was parsed from, if it was."""
    return (source_of(module.operation.location) or "a module").removesuffix(":0:0")


def blame(
    error: Exception, stages: Sequence[Any], number: int, module: ir.Module, *, left: bool, verified: int
) -> None:
    """Notes on `error` that it came of pass `number` of `stages`; `verified`: how many of them had run when the IR was last verified."""
    stage, earlier = stages[number], stages[:number]
    unverified = left or isinstance(error, ir.MLIRError)
    before = tuple(called(s) for i, s in enumerate(earlier) if is_foreign(s) or (unverified and i >= verified))
    source = None if isinstance(error, ir.MLIRError) else _place(error, module)
    failure = Failure(stage.name, called(stage), is_foreign(stage), number, left, source, before)
    setattr(error, _KEY, failure)
    error.add_note(failure.told())


def failure_of(error: BaseException) -> Failure | None:
    """The failure that `error` tells of, if a pass failed."""
    return getattr(error, _KEY, None)


def _place(error: Exception, module: ir.Module) -> str | None:
    """Where the op stands that `error` was raised at: what it says itself, the op in the innermost frame that has one, or the module."""
    told = getattr(error, "location", None)
    if isinstance(told, str):
        return told
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    ops = (op for frame in reversed(frames) for op in _ops(frame.f_locals))
    for op in (*ops, module.operation):
        with tolerating(RuntimeError):  # it is erased
            if source := source_of(op.location):
                return source.replace(":0:0", ":1:1")  # the whole file
    return None


def _ops(found: dict[str, Any]) -> Iterator[ir.Operation]:
    """The operations among a function's variables: `op` first, then the last ones."""
    for value in (found.get("op"), *reversed(found.values())):
        if isinstance(value, ir.Operation | ir.OpView):
            yield value.operation
