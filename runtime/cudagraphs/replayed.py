"""A compiled graph whose launches are recorded and replayed: which recording serves a call, and how many there may be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from ..boxed import Boxed, boxed
from ..memory.alignment import ALIGNMENT
from ..memory.cuda_arena_views import memory_apart

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
    recording of its own. `outputs`: the stack trace of each output; `gradients`: of a backward's, the inputs whose gradients they are, if known.
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


class Replayed:
    """`call`, recorded and replayed as `recording` says: a function with the boxed calling convention.

    Each set of sizes is recorded by itself. What is beyond `limits` runs as it is, and `report` is told why, once a reason. `refused`, called
    before the first recording, may tell why there is to be none. `large`: the bytes that it surely takes of the pool at one time, in large
    pieces. Safe to call from several threads.
    """

    def __init__(
        self,
        call: Boxed,
        recording: Recording,
        limits: Limits,
        recorder: Recorder,
        report: Report,
        refused: Callable[[], str | None] = lambda: None,
        large: int = 0,
    ):
        self.call, self.recording, self.limits, self.large = call, recording, limits, large
        self._refused = refused
        self._recorder, self._report = recorder, report
        self._functions: dict[tuple, Boxed] = {}  # sizes -> what runs them
        self._full: str | None = None  # why no more sizes are recorded
        self._device = torch.device("cuda", recording.device)
        # What runs without a recording. A backward tells the tree that it runs, as one that is replayed does.
        backward = recording.direction == "backward"
        self._unrecorded = telling_backward(call, recorder, recording.device) if backward else call
        boxed(self)
        self._plain = not (recording.host or recording.sized or recording.integers)

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        key: tuple = ()
        if not self._plain:
            what = self.recording
            for number in what.host:
                args[number] = args[number].to(self._device)
            key = (*[args[n] for n in what.integers], *[args[n].shape for n in what.sized])
        function = self._functions.get(key)
        if function is None:
            function = self._begin(key, args)
        return function(args)

    def _begin(self, key: tuple, args: list[Any]) -> Boxed:
        if any(args[number].data_ptr() % ALIGNMENT for number in self.recording.written):
            return self._unrecorded  # it writes to an aligned copy and copies back, which only the call itself knows
        if self._full is None:
            self._full = self._no_room()
            if self._full is not None:
                self._report.stopped(self._full)
        if self._full is not None:
            return self._unrecorded
        return self._functions.setdefault(key, self._recorder.record(self._watched(key), self.recording))

    def _no_room(self) -> str | None:
        if not self._functions and (refused := self._refused()) is not None:
            return refused
        if len(self._functions) >= self.limits.shapes:
            return (
                f"{len(self._functions)} sizes of its inputs are recorded, and a further one came: pad inputs to fewer sizes, or raise "
                "the option 'cudagraph_shapes'"
            )
        held = self._recorder.held_bytes(self.recording.device)
        if held >= self.limits.bytes:
            return (
                f"the recordings of cuda:{self.recording.device} hold {held:,} bytes: use fewer sizes of inputs, or raise the option "
                "'cudagraph_bytes'"
            )
        return None

    def _watched(self, key: tuple) -> Boxed:
        """`call`, counting how often it is recorded."""
        recorded = 0
        places: tuple[int, ...] = ()  # the addresses of static inputs when it was recorded last
        static, inputs = self.recording.static, self.recording.inputs

        def call(args: list[Any]) -> Sequence[Any]:
            nonlocal recorded, places
            if not self._recorder.capturing():
                if self.large:
                    self._recorder.reserve(self.recording.device, self.large)
                with memory_apart():  # it runs in the memory of the recordings
                    return self.call(args)
            recorded += 1
            self._report.recorded()
            before, places = places, tuple(args[n].data_ptr() for n in static)
            if recorded > 1:
                self._report.recorded_again([inputs[n] for n, a, b in zip(static, before, places) if a != b])
            if recorded == self.limits.recordings:
                self._functions[key] = self._unrecorded
                self._report.stopped(
                    f"it was recorded {recorded} times for inputs of one size: parameters or buffers change their places, or it follows ever "
                    "other graphs; keep them where they are, and call torch.compiler.cudagraph_mark_step_begin() before each step"
                )
            try:
                return self.call(args)
            except Exception as error:
                error.add_note(
                    f"while a CUDA graph of {self.recording.name} was recorded; options={{'cudagraphs': False}} runs it without"
                )
                raise

        call.__name__ = self.recording.name
        return call


def telling_backward(call: Boxed, recorder: Recorder, device: int) -> Boxed:
    """`call`, a backward that is not replayed while its forward is; the tree of the forward's device is told that it runs."""

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        recorder.running_backward(device)
        return call(args)

    return run
