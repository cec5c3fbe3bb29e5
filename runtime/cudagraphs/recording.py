"""Facts about a recording: which graph, its inputs, its limits, and who records it and is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from ..boxed import Boxed

Direction = Literal["forward", "backward", "inference"]


@dataclass(frozen=True)
class Input:
    """An input, as messages name it. `written_at`: the stack trace of the operator that writes to it; `place`: a line of the user's that
    reads it."""

    name: str
    stack_trace: str | None = None
    written_at: str | None = None
    place: str | None = None

    def __str__(self) -> str:
        return f"'{self.name}' ({self.place})" if self.place else f"'{self.name}'"


@dataclass(frozen=True)
class Recording:
    """How a compiled graph is captured; inputs are meant by their numbers.

    `static`: tensors that stay where they are from call to call, and are not copied. `written`: what the graph writes to; it is among `static`.
    `host`: tensors on the CPU, moved before each replay. `sized`: tensors of dynamic sizes; `integers`: numbers, each set of which has a
    recording of its own. `views`: outputs that are views of inputs which are copied, each with its input. `outputs`: the stack trace of each
    output; `gradients`: of a backward's, the inputs whose gradients they are, if known.
    """

    name: str
    device: int
    direction: Direction
    inputs: tuple[Input, ...]
    outputs: tuple[str | None, ...]
    static: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    host: tuple[int, ...] = ()
    sized: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    constants: tuple[torch.Tensor, ...] = ()
    gradients: tuple[str | None, ...] = ()

    def outputs_told(self) -> list[str | None]:
        """The text about each output for an error where it is read too late: where it was computed, and whose gradient it is."""
        names = self.gradients or (None,) * len(self.outputs)
        return [_told(trace, name) for trace, name in zip(self.outputs, names, strict=True)]


def _told(trace: str | None, name: str | None) -> str | None:
    if name is None:
        return trace
    change = "keep zeros in its .grad from the start (zero_grad(set_to_none=False)), or compile the optimizer without cudagraphs"
    place = f", computed at\n{trace.rstrip()}\n" if trace else ""
    return f"the gradient of '{name}'{place} (an optimizer compiled apart reads it too late: {change})"


@dataclass(frozen=True)
class Limits:
    """How much is recorded: `shapes` of one graph, `recordings` of one shape, `bytes` held by all recordings of a device."""

    shapes: int
    bytes: int
    recordings: int = 256


class Recorder(Protocol):
    """The functions of `cudagraph_trees.py`."""

    def record(self, call: Boxed, what: Recording) -> Boxed: ...
    def capturing(self) -> bool: ...
    def held_bytes(self, device: int) -> int: ...
    def reserve(self, device: int, size: int) -> None: ...
    def running_backward(self, device: int) -> None: ...
    def total_bytes(self, device: int) -> int: ...
    def unavailable(self) -> str | None: ...


class Report(Protocol):
    """Is told what happens."""

    def recorded(self) -> None: ...
    def recorded_again(self, moved: Sequence[Input]) -> None: ...
    def stopped(self, why: str) -> None: ...
