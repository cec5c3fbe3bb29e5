"""Copies of tensors to the host and back, beside what computes: operators that begin one, and one that waits for it.

On a GPU each direction has a stream of its own, and a wait makes the computing stream wait, not the host; copies on the host are pinned. On a
CPU a copy is made where it begins, and its memory is none of PyTorch's allocator's, as pinned memory is none of a GPU's.
"""

import mmap
from dataclasses import dataclass
from functools import cache

import torch

TO_HOST, TO_DEVICE = "to_host", "to_device"
_library = torch.library.Library("bascule_host", "FRAGMENT")
_tags = tuple(filter(None, [getattr(torch.Tag, "cudagraph_unsafe", None)]))
_library.define("to_host(Tensor x) -> Tensor", tags=_tags)
_library.define("to_device(Tensor x, *, Device device) -> Tensor", tags=_tags)
_library.define("wait_tensor(Tensor x) -> Tensor", tags=_tags)


@dataclass(frozen=True)
class _Copy:
    """A copy under way: both tensors stay until it is `done`."""

    done: "torch.cuda.Event"
    source: torch.Tensor
    copy: torch.Tensor


_begun: dict[int, _Copy] = {}  # by the address of the copy


@torch.library.impl(_library, "to_host", "CompositeExplicitAutograd")
def _to_host(x: torch.Tensor) -> torch.Tensor:
    """Begins a copy of `x` on the host; `wait_tensor` of it ends that, and `x` stays as it is until then."""
    if not x.is_cuda:
        return _unpooled_like(x).copy_(x)
    try:
        copy = torch.empty_strided(_sizes(x), _strides(x), dtype=x.dtype, device="cpu", pin_memory=True)
    except RuntimeError as error:
        raise _no_memory(x, error) from error
    return _begin(copy, x, TO_HOST, x.device)


@torch.library.impl(_library, "to_device", "CompositeExplicitAutograd")
def _to_device(x: torch.Tensor, *, device: torch.device) -> torch.Tensor:
    """Begins a copy of `x`, on the host, on `device`; `wait_tensor` of it ends that."""
    copy = torch.empty_strided(_sizes(x), _strides(x), dtype=x.dtype, device=device)
    return _begin(copy, x, TO_DEVICE, copy.device) if copy.is_cuda else copy.copy_(x)


@torch.library.impl(_library, "wait_tensor", "CompositeExplicitAutograd")
def wait_copied(x: torch.Tensor) -> torch.Tensor:
    """`x`, which what is computed next can read, and whose source can be written. Compiled modules call this, not the operator: of that PyTorch
    would say that it gives what it takes."""
    copy = _begun.pop(x.data_ptr(), None)
    if copy is not None:
        device = copy.copy.device if copy.copy.is_cuda else copy.source.device
        torch.cuda.current_stream(device).wait_event(copy.done)
    return x


def _begin(copy: torch.Tensor, source: torch.Tensor, direction: str, device: torch.device) -> torch.Tensor:
    """Copies on the stream of a direction what the computing stream has made so far."""
    if not copy.numel():
        return copy
    for address in [address for address, known in list(_begun.items()) if known.done.query()]:
        _begun.pop(address, None)  # of a call that raised before its wait, or one that need not wait any more
    stream = _stream(direction, device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        copy.copy_(source, non_blocking=True)
        done = torch.cuda.Event()
        done.record(stream)
    _begun[copy.data_ptr()] = _Copy(done, source, copy)
    return copy


@cache
def _stream(direction: str, device: torch.device) -> "torch.cuda.Stream":
    return torch.cuda.Stream(device)


def _unpooled_like(x: torch.Tensor) -> torch.Tensor:
    """A tensor on the CPU in memory of the system's own."""
    sizes, strides = _sizes(x), _strides(x)
    if not x.numel():
        return torch.empty_strided(sizes, strides, dtype=x.dtype, device="cpu")
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    try:
        memory = mmap.mmap(-1, extent * x.itemsize)
    except OSError as error:
        raise _no_memory(x, error) from error
    return torch.frombuffer(memory, dtype=x.dtype, count=extent).as_strided(sizes, strides)


def _sizes(x: torch.Tensor) -> list[int]:
    return list(x.shape)


def _strides(x: torch.Tensor) -> tuple[int, ...]:
    """Those of what is like `x`: dense, in the order of its dims."""
    return torch.empty_like(x, device="meta").stride()


def _no_memory(x: torch.Tensor, error: Exception) -> MemoryError:
    count = x.numel() * x.itemsize
    told = f"the host has no {count} bytes of {'pinned ' if x.is_cuda else ''}memory for what the memory budget keeps there: {error}"
    return MemoryError(f"{told}\nhint: leave out the option 'memory_budget_host', or give a larger 'memory_budget'")


@cache
def register_fake() -> None:
    """Lets them be traced; a process that only runs packages imports nothing of that."""
    from bascule.compat.operators.custom_operators import register_fake as register

    host, device, wait = (f"bascule_host::{name}" for name in (TO_HOST, TO_DEVICE, "wait_tensor"))
    register(host, lambda x: torch.empty_like(x, device="cpu"), _library)
    register(device, lambda x, *, device: torch.empty_like(x, device=device), _library)
    register(wait, lambda x: x, _library)
