"""A compiled graph whose launches are recorded and replayed: which recording serves a call, and how many there may be."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..boxed import Boxed, boxed
from ..memory.alignment import ALIGNMENT
from ..memory.cuda_arena_views import memory_apart
from ..memory.returned_views import same_part
from .recording import Limits, Recorder, Recording, Report


class Replayed:
    """`call`, recorded and replayed as `recording` says: a function with the boxed calling convention.

    Each set of sizes is recorded by itself, and of inputs that are zeros without memory (`nullable`), which are copied nowhere. What is beyond
    `limits` runs as it is, and `report` is told why, once a reason. `refused`, called before the first recording, may tell why there is to be
    none. `large`: the bytes that it surely takes of the pool at one time, in large pieces. Safe to call from several threads.
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
        self.nullable: tuple[int, ...] = getattr(call, "nullable", ())  # numbers of the inputs whose address may be 0

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        key: tuple = ()
        if not self._plain:
            what = self.recording
            for number in what.host:
                args[number] = args[number].to(self._device)
            key = (*[args[n] for n in what.integers], *[args[n].shape for n in what.sized])
        zeros = {n: args[n] for n in self.nullable if args[n]._is_zerotensor()} if self.nullable else {}
        if zeros:
            key = (*key, *zeros)
        function = self._functions.get(key)
        if function is None:
            function = self._begin(key, args, zeros)
        if zeros and function is not self._unrecorded:
            for number in zeros:
                args[number] = 0  # a recording keeps no tensor for it
        if not self.recording.views:
            return function(args)
        given = {output: args[number] for output, number in self.recording.views if number not in zeros}
        outputs = list(function(args))
        for output, argument in given.items():
            if outputs[output].untyped_storage().data_ptr() != argument.untyped_storage().data_ptr():
                outputs[output] = same_part(argument, outputs[output])  # a recording gives what lies in its copy
        return outputs

    def _begin(self, key: tuple, args: list[Any], zeros: Mapping[int, torch.Tensor]) -> Boxed:
        if any(args[number].data_ptr() % ALIGNMENT for number in self.recording.written):
            return self._unrecorded  # it writes to an aligned copy and copies back, which only the call itself knows
        if self._full is None:
            self._full = self._no_room()
            if self._full is not None:
                self._report.stopped(self._full)
        if self._full is not None:
            return self._unrecorded
        return self._functions.setdefault(key, self._recorder.record(self._watched(key, zeros), self.recording))

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

    def _watched(self, key: tuple, zeros: Mapping[int, torch.Tensor]) -> Boxed:
        """`call`, counting how often it is recorded; `zeros`: what it is given for these of its inputs."""
        recorded = 0
        places: tuple[int, ...] = ()  # the addresses of static inputs when it was recorded last
        static, inputs = self.recording.static, self.recording.inputs

        def call(args: list[Any]) -> Sequence[Any]:
            nonlocal recorded, places
            for number, zero in zeros.items():
                args[number] = zero
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
