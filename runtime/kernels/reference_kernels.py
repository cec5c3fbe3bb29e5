"""Kernels that were not compiled, beside those that were: each is a function of its symbols and of the addresses of its buffers."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from .launch_plans import Argument, Launch, Plan, Planner

Reference: TypeAlias = Callable[[Sequence[int], Sequence[int]], None]  # (symbols, addresses)


class PartlyCompiledFunctions:
    """For `load`: C functions by address, those of `compiled`, and Python functions. `symbols`: how many each of these takes."""

    def __init__(self, compiled: Any, references: Mapping[str, Reference], symbols: Mapping[str, int]):
        self.addresses, self.compiled = compiled.addresses, compiled
        self.references = {name: _as_c_function(reference, symbols[name]) for name, reference in references.items()}


def _as_c_function(reference: Reference, symbols: int) -> Callable[..., None]:
    def function(*words: int) -> None:  # symbols, addresses, the number of threads
        reference(words[:symbols], words[symbols:-1])

    return function


class PartlyCompiledPlans:
    """A planner: launches of kernels that are compiled go to `planner`, in runs, and the others are called between them.

    These run on the stream that is current, which is the one that a plan is given.
    """

    def __init__(self, planner: Planner, references: Mapping[str, Reference]):
        self.planner, self.references = planner, references

    def plan(self, launches: list[Launch]) -> Plan:
        steps: list[Plan] = []
        for called, part in groupby(launches, lambda launch: launch[0] in self.references):
            if called:
                steps += [_call(self.references[name], arguments) for name, _, arguments in part]
            else:
                steps.append(self.planner.plan(list(part)))
        if len(steps) == 1:
            return steps[0]

        def plan(stream: int, *slots: int) -> None:
            for step in steps:
                step(stream, *slots)

        return plan


def _call(reference: Reference, arguments: list[Argument]) -> Plan:
    def plan(stream: int, *slots: int) -> None:
        words = [(slots[number] + offset, kind) for _, number, offset, kind in arguments]
        reference([w for w, kind in words if kind != "ptr"], [w for w, kind in words if kind == "ptr"])

    return plan
