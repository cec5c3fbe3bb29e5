"""How passes ask the plug-in at hand. Without one, each answer is the default."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import UserError
from ..interrupts import pass_on
from ..ir.attributes import ScheduleAttr
from ..ir.locations import source_of
from ..ir.schedules import complaint
from ..mlir import ir
from .hooks import Fusion, Hooks, Ordering, Scheduling

_CURRENT: ContextVar[Hooks | None] = ContextVar("hooks", default=None)


@contextmanager
def steered_by(hooks: Hooks | None) -> Iterator[None]:
    """Passes that run inside ask `hooks`."""
    token = _CURRENT.set(hooks)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_steered() -> bool:
    """Whether there is a plug-in: what it is told may be costly to find out."""
    return _CURRENT.get() is not None


def name_of_hooks() -> str:
    return type(_CURRENT.get()).__name__


def may_fuse(fusion: Fusion) -> bool:
    """Raises `UserError` for an answer that is none, and where the hook raises."""
    answer = _asked("may_fuse", fusion)
    if answer is None:
        return fusion.default
    if not isinstance(answer, bool):
        raise _refused("may_fuse", f"answers {answer!r}, and not True, False or None")
    return answer


def schedule_of(scheduling: Scheduling) -> ir.DictAttr:
    """Raises as `may_fuse` does, at the kernel's line for keys that no schedule has. Whether it fits the kernel is for the lowering to say."""
    answer = _asked("schedule", scheduling)
    if answer is None:
        return scheduling.default
    place = source_of(scheduling.kernel.location)
    if not isinstance(answer, ir.DictAttr):
        raise _refused("schedule", f"answers {answer!r} for @{scheduling.name}, and no dictionary attribute", place)
    if wrong := complaint(ScheduleAttr.get(answer)):
        raise _refused("schedule", f"gives @{scheduling.name} a schedule that {wrong}", place)
    return answer


def order_of(ordering: Ordering) -> Sequence[int]:
    """Raises as `may_fuse` does, and for an order that is none of all the ops, or that breaks a dependence."""
    answer = _asked("order", ordering)
    if answer is None:
        return ordering.default
    order = list(answer)
    if sorted(order) != [*range(len(ordering.ops))]:
        raise _refused("order", f"answers {order}, in which not each of {len(ordering.ops)} ops stands once")
    places = {number: place for place, number in enumerate(order)}
    for number in order:
        early = [needed for needed in ordering.after[number] if places[needed] > places[number]]
        if early:
            place = source_of(ordering.ops[number].location)
            raise _refused("order", f"puts op {number} before op {early[0]}, which it needs", place)
    return order


def _asked(method: str, question: Any) -> Any:
    hooks = _CURRENT.get()
    if hooks is None:
        return None
    ask: Callable[[Any], Any] = getattr(hooks, method)
    try:
        return ask(question)
    except Exception as error:  # whatever the user's code raises
        pass_on(error)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        told = f"raised {type(error).__name__}: {error}"
        raise _refused(method, told, f"{frame.filename}:{frame.lineno}") from error


def _refused(method: str, told: str, location: str | None = None) -> UserError:
    return UserError(f"the hook {name_of_hooks()}.{method} {told}", location=location)
