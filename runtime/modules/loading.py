"""A generated module, its compiled kernels and constants become a function."""

import itertools
import linecache
import weakref
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p
from typing import Any, Protocol, cast

import torch
from torch.profiler import record_function

from bascule.compat.graphs.profiling import profiler_enabled

from ..boxed import Boxed, boxed
from ..kernels.launch_plans import Planner, vocabulary
from ..memory.placed_constants import placed
from .first_collectives import watched
from .profiled import range_of, with_ranges

PARAMETERS = 1024  # more ctypes does not pass: they are one array, see `lowering/cpu/kernels/entry.py`
_numbers = itertools.count()


class Kernels(Protocol):
    """Compiled kernels: `addresses` of C functions `void f(int64_t symbols.., void *buffers.., int64_t threads)`, by name.

    Their code lives at least as long as this object.
    """

    # May have `references` beside it: Python functions of the same numbers, for kernels that have no address.
    addresses: dict[str, int]


def load(
    source: str,
    kernels: Kernels | Planner,
    constants: Sequence[torch.Tensor] = (),
    *,
    file: str | None = None,
) -> Boxed:
    """Runs the text of a generated module and returns its `call`, with the boxed calling convention.

    `file` is where the text has been written, if it has: tracebacks name it. An error raised in a line that stands for one
    of the user's gets a note that names it. What is returned keeps `kernels`, whose code it runs.
    """
    name = file or f"<bascule graph {next(_numbers)}>"
    functions = _Functions(cast(Kernels, kernels))
    namespace: dict[str, Any] = {"__name__": "bascule.graph", "__kernels__": kernels, "constants": tuple(constants)}
    if hasattr(kernels, "plan"):
        namespace |= vocabulary(cast(Planner, kernels))
    else:
        namespace["kernel"] = functions
    exec(compile(source, name, "exec"), namespace)
    run, locations = namespace["call"], namespace["LOCATIONS"]
    if file is None:
        _show_in_tracebacks(name, source, run)
    if "DEVICE" in namespace:
        namespace["constants"] = placed(constants, namespace["DEVICE"])
        if namespace["DEVICE"].type == "cuda":
            run = _on_device(run, namespace["DEVICE"].index)

    plain = namespace["call"]
    connects = "wait_tensor" in source and "DEVICE" in namespace and namespace["DEVICE"].type == "cuda"

    @boxed
    def call(args: list[Any]) -> Sequence[Any]:
        nonlocal connects
        try:
            if connects:
                connects = False
                with watched(plain.__code__, source.splitlines(), namespace):
                    return run(args)
            if profiler_enabled():
                with record_function(range_of(source)):
                    return (with_ranges(plain, namespace, functions.made) if functions.made else run)(args)
            return run(args)
        except Exception as error:
            _annotate(error, name, locations)
            _annotate_collective(error, name, source, namespace)
            raise

    call.nullable = namespace.get("NULLABLE", ())  # type: ignore[attr-defined]  # numbers of the inputs whose address may be 0
    return call


def _show_in_tracebacks(name: str, source: str, run: Callable[..., Any]) -> None:
    """Gives tracebacks through `run` the lines of its module, for as long as it lives."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    weakref.finalize(run, linecache.cache.pop, name, None).atexit = False


def _on_device(run: Boxed, index: int) -> Boxed:
    """`run` with device `index` as the current one."""

    def on_device(args: list[Any]) -> Sequence[Any]:
        if torch.cuda.current_device() == index:
            return run(args)
        with torch.cuda.device(index):
            return run(args)

    return on_device


class _Functions:
    """A module calls it to get its kernels; `made` has those that it got, by name."""

    def __init__(self, kernels: Kernels):
        self.kernels = kernels
        self.made: dict[str, Callable[..., None]] = {}

    def __call__(self, name: str, arguments: int) -> Callable[..., None]:
        made = self.made[name] = function_of(self.kernels, name, arguments)
        return made


def function_of(kernels: Kernels, name: str, arguments: int) -> Callable[..., None]:
    """The kernel as a function of integers, all 64 bits wide: as pointers they pass through ctypes fastest."""
    reference = getattr(kernels, "references", {}).get(name)
    if reference is not None:
        return reference
    address = kernels.addresses[name]
    if arguments <= PARAMETERS:
        return CFUNCTYPE(None, *[c_void_p] * arguments)(address)
    function, words = CFUNCTYPE(None, c_void_p)(address), c_int64 * arguments
    return lambda *given: function(words(*given))


def _annotate_collective(error: Exception, file: str, source: str, namespace: dict[str, Any]) -> None:
    """Adds to the error of a collective which it is, and where the other ranks are."""
    if not isinstance(error, RuntimeError) or "wait_tensor" not in source:
        return
    from .collective_errors import ranks_note

    frame, lines = error.__traceback__, source.splitlines()
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file:
            note = ranks_note(lines, frame.tb_lineno, namespace)
            if note is not None:
                error.add_note(note)
        frame = frame.tb_next


def _annotate(error: Exception, file: str, locations: dict[int, str]) -> None:
    """Adds the user's line to an error that left the generated module."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file and frame.tb_lineno in locations:
            error.add_note(f"in the operator called at {locations[frame.tb_lineno]}")
        frame = frame.tb_next
