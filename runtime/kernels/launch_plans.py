"""How a generated module writes down what a plan launches: `(kernel, programs, *arguments)`.

A plan is a function of a stream and of slots, each a number or an address. `programs` is a number or a slot.

A kernel that takes a `size` has three variants: under its own name with indices of 64 bits, `.._narrow` with 32, and `.._aligned` with 32 for
symbols that are multiples of 16. A run with such kernels is a `SizedPlan`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Slot: TypeAlias = tuple[str, int]  # ("slot", number)
Argument: TypeAlias = tuple[str, int, int, str]  # ("slot", number, bytes from there, "ptr", "i32", "i64" or "size")
Launch: TypeAlias = tuple[Any, int | Slot, list[Argument]]
Plan: TypeAlias = Callable[..., None]  # plan(stream, *slots)


class Planner(Protocol):
    """Compiled kernels that plans launch."""

    def plan(self, launches: list[Launch]) -> Plan:
        """A plan; the first part of each launch is the kernel's name. No argument is a "size"."""
        ...


WIDE, NARROW, ALIGNED = "", "_narrow", "_aligned"
NARROW_BELOW = (1 << 31) - (1 << 20)  # indices below this may have 32 bits; the last program's tile reaches beyond it


def variant_of(name: str) -> str:
    """The suffix of a kernel's name, if it is that of a variant."""
    return next((suffix for suffix in (NARROW, ALIGNED) if name.endswith(suffix)), WIDE)


class SizedPlan:
    """A run whose kernels have variants. What they are is decided at each call; a variant's plan is made at the first that needs it."""

    def __init__(self, planner: Planner, launches: Sequence[Launch]):
        self.planner, self.launches = planner, launches
        self.plans: dict[str, Plan] = {}

    def __call__(self, stream: int, *slots: int, reach: int, sizes: int) -> None:
        """`reach`: the largest index that a kernel meets; `sizes`: the bits of all symbols that kernels take, or-ed."""
        suffix = WIDE if reach >= NARROW_BELOW else NARROW if sizes & 15 else ALIGNED
        plan = self.plans.get(suffix)
        if plan is None:
            plan = self.plans[suffix] = self.planner.plan([self._chosen(launch, suffix) for launch in self.launches])
        plan(stream, *slots)

    @staticmethod
    def _chosen(launch: Launch, suffix: str) -> Launch:
        name, programs, arguments = launch
        if not _is_sized(launch):
            return launch
        kind = "i64" if suffix == WIDE else "i32"
        chosen = [(*place, kind if its == "size" else its) for *place, its in arguments]
        return f"{name}{suffix}", programs, chosen  # type: ignore[return-value]


def _is_sized(launch: Launch) -> bool:
    return any(kind == "size" for *_, kind in launch[2])


def slot(number: int) -> Slot:
    return ("slot", number)


def ptr(number: int, offset: int = 0) -> Argument:
    """`offset` bytes from the address in a slot."""
    return ("slot", number, offset, "ptr")


def i32(number: int) -> Argument:
    return ("slot", number, 0, "i32")


def i64(number: int) -> Argument:
    return ("slot", number, 0, "i64")


def size(number: int) -> Argument:
    """A symbol, of as many bits as the kernel's variant has."""
    return ("slot", number, 0, "size")


def vocabulary(planner: Planner) -> dict[str, Any]:
    """The names that a generated module uses for plans."""

    def plan(*entries: tuple) -> Plan:
        launches: list[Launch] = [(name, programs, list(arguments)) for name, programs, *arguments in entries]
        return SizedPlan(planner, launches) if any(map(_is_sized, launches)) else planner.plan(launches)

    return {"plan": plan, "slot": slot, "ptr": ptr, "i32": i32, "i64": i64, "size": size}
