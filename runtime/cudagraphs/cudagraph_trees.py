"""CUDA graphs: recorded and replayed by PyTorch's trees of them, which share one pool of memory a device.

PyTorch 2.13 keeps what it has recorded by thread, 2.11 for all threads.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from bascule.compat.inductor.cudagraph_trees import cudagraphify, loaded_trees, placeholder_info, trees
from bascule.compat.tensors.cuda_memory import allocator_enabled, snapshot

from ..boxed import Boxed
from .recording import Recording

LEAST = 10 << 20  # bytes: PyTorch's allocator takes segments of 20 MiB for smaller blocks, and divides them anyway


def record(call: Boxed, what: Recording) -> Boxed:
    """A function that runs `call` once to warm up, records it at its second call, then replays it; in the tree of device `what.device`.

    It records again where static inputs have moved, or where it comes after other functions than before.
    """
    placeholders = tuple(placeholder_info(x.name, x.stack_trace, [], x.written_at) for x in what.inputs)
    return cudagraphify(
        call,
        what.static,
        device_index=what.device,
        stack_traces=what.outputs_told(),
        is_backward=what.direction == "backward",
        is_inference=what.direction == "inference",
        constants=tuple(what.constants),
        placeholders=placeholders,
        mutated_input_idxs=what.written,
    )


def capturing() -> bool:
    """Whether the current stream is being recorded."""
    return torch.cuda.is_current_stream_capturing()


def held_bytes(device: int) -> int:
    """The bytes of the pool that the recordings of device number `device` share."""
    return sum(segment["total_size"] for segment in _segments(device))


def reserve(device: int, size: int) -> None:
    """Sees to `size` free bytes in the pool, what it lacks as one piece; to be called where allocations go to the pool.

    Pieces of what was allocated at once meet again when they are freed, those of segments that were allocated one by one, as tensors were
    asked for, do not: a tensor larger than each of them takes memory beside what is free. Where there is no such piece of memory, or PyTorch's
    allocator is told not to divide such (`max_split_size_mb`), nothing is reserved: the call takes its memory tensor by tensor.
    """
    lacking = size - sum(segment["total_size"] - segment["active_size"] for segment in _segments(device))
    if lacking < LEAST or 0 <= snapshot()["allocator_settings"]["max_split_size"] < lacking:
        return
    with suppress(torch.OutOfMemoryError):
        torch.empty(lacking, dtype=torch.uint8, device=torch.device("cuda", device))


def _segments(device: int) -> list[dict[str, Any]]:
    """Those of the pool, as PyTorch's allocator tells them."""
    manager = trees().get_manager(device, create_if_none_exists=False)
    return [] if manager is None else trees().get_cudagraph_segments(manager.cuda_graphs_thread_pool)


def recordings(device: int) -> int:
    """How many recordings the tree of device number `device` has."""
    manager = trees().get_manager(device, create_if_none_exists=False)
    if manager is None:
        return 0
    waiting, found = [manager.roots], 0
    while waiting:
        nodes = [node for functions in waiting.pop().values() for node in functions]
        found += len(nodes)
        waiting += [node.children for node in nodes]
    return found


def running_backward(device: int) -> None:
    """Tells the tree of a device that a backward runs which is not replayed: what its forward has saved is needed no longer."""
    manager = trees().get_manager(device, create_if_none_exists=False)
    if manager is not None:
        manager.set_to_running_backward()


def forget() -> None:
    """Drops all recordings of this thread: recorded functions cannot be called any more."""
    loaded = loaded_trees()
    if loaded is not None:
        loaded.reset_cudagraph_trees()


def total_bytes(device: int) -> int:
    """The memory of a device."""
    return torch.cuda.get_device_properties(device).total_memory


def unavailable() -> str | None:
    """Why nothing can be recorded in this process; None if it can."""
    return (
        None
        if allocator_enabled()
        else "PyTorch's caching allocator is off, in whose pools CUDA graphs keep their memory"
    )


def static_input_numbers() -> Sequence[int]:
    """Which inputs of the forward that is being compiled, parameters and buffers, stay where they are from call to call."""
    from bascule.compat.graphs.tracing import TracingContext

    context = TracingContext.try_get()
    found = context is not None and context.fw_metadata is not None and context.fw_metadata.static_input_indices
    return tuple(found or ())
