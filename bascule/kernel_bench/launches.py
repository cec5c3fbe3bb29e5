"""Compiled kernels, each launch of which passes through a function that is told of it: at a CPU and at a GPU."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bascule.runtime.kernels.launch_plans import Launch, Plan, Planner, variant_of
from bascule.runtime.modules.loading import function_of


@dataclass(frozen=True)
class Call:
    """One launch of the kernel `name`: the values of its symbols, the addresses of its buffers; `run` launches it."""

    name: str
    symbols: tuple[int, ...]
    addresses: tuple[int, ...]
    run: Callable[[], None]


Told = Callable[[Call], None]  # has to run the call, once more at the end than it likes


class WatchedFunctions:
    """For `load`, in place of `compiled`, functions of a CPU; `symbols`: how many each takes."""

    def __init__(self, compiled: Any, symbols: Mapping[str, int], told: Told):
        self.addresses: dict[str, int] = {}
        self.references = {name: _watched(compiled, name, count, told) for name, count in symbols.items()}


def _watched(compiled: Any, name: str, symbols: int, told: Told) -> Callable[..., None]:
    made: list[Callable[..., None]] = []  # once it is known how many numbers it takes

    def function(*words: int) -> None:  # symbols, addresses, the number of threads
        if not made:
            made.append(function_of(compiled, name, len(words)))
        told(Call(name, words[:symbols], words[symbols:-1], lambda: made[0](*words)))

    return function


class WatchedPlanner:
    """For `load`, in place of `planner`, kernels of a GPU."""

    def __init__(self, planner: Planner, told: Told):
        self.planner, self.told = planner, told

    def plan(self, launches: list[Launch]) -> Plan:
        each = [(launch, self.planner.plan([launch])) for launch in launches]

        def plan(stream: int, *slots: int) -> None:
            for (name, _, arguments), one in each:
                words = [(slots[number] + offset, kind) for _, number, offset, kind in arguments]
                symbols, addresses = _split(words)
                name = name.removesuffix(variant_of(name))
                self.told(Call(name, symbols, addresses, lambda one=one: one(stream, *slots)))  # type: ignore[misc]

        return plan


def _split(words: Sequence[tuple[int, str]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    symbols = tuple(word for word, kind in words if kind != "ptr")
    return symbols, tuple(word for word, kind in words if kind == "ptr")
