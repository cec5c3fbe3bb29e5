"""How a generated module writes down what a plan launches: `(kernel, programs, *arguments)`.

A plan is a function of a stream and of slots, each a number or an address. `programs` is a number or a slot.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Slot: TypeAlias = tuple[str, int]  # ("slot", number)
Argument: TypeAlias = tuple[str, int, int, str]  # ("slot", number, bytes from there, "ptr", "i32" or "i64")
Launch: TypeAlias = tuple[Any, int | Slot, list[Argument]]
Plan: TypeAlias = Callable[..., None]  # plan(stream, *slots)


class Planner(Protocol):
    """Compiled kernels that plans launch."""

    def plan(self, launches: list[Launch]) -> Plan:
        """A plan; the first part of each launch is the kernel's name."""
        ...


def slot(number: int) -> Slot:
    return ("slot", number)


def ptr(number: int, offset: int = 0) -> Argument:
    """`offset` bytes from the address in a slot."""
    return ("slot", number, offset, "ptr")


def i32(number: int) -> Argument:
    return ("slot", number, 0, "i32")


def i64(number: int) -> Argument:
    return ("slot", number, 0, "i64")


def vocabulary(planner: Planner) -> dict[str, Any]:
    """The names that a generated module uses for plans."""

    def plan(*launches: tuple) -> Plan:
        return planner.plan([(name, programs, list(arguments)) for name, programs, *arguments in launches])

    return {"plan": plan, "slot": slot, "ptr": ptr, "i32": i32, "i64": i64}
