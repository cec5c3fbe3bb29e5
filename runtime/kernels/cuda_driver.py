"""Kernels on CUDA: loading, streams, what a device is. Imported only where CUDA is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from bascule.compat.tensors.cuda_memory import raw_stream

try:
    from .._native import Cubin, DriverError, Function, KernelError, Plan, open_driver
except ImportError as error:
    raise ImportError(
        f"bascule was installed without its native launcher, which CUDA needs ({error}). It is built where there are a C++ compiler, "
        "CMake, Python's headers and nanobind: install bascule again where they are, with the setting "
        "`--config-settings=cmake.define.BASCULE_NATIVE=ON` to see what is missing."
    ) from error


@dataclass(frozen=True)
class CubinImage:
    """A compiled kernel.

    `entry` is its name in the cubin, `warps` and `shared` are what it was compiled for (`shared`: dynamic shared memory a program, bytes),
    `location` is the user's line; `early`: it may be started while what runs before it on its stream ends, for which it waits itself; `maps`:
    the tensor maps that it takes, as `Cubin.function` does.
    """

    cubin: bytes = field(repr=False)
    entry: str
    warps: int
    shared: int
    location: str
    early: bool = False
    maps: list[dict[str, Any]] = field(default_factory=list)


def load_kernels(
    images: Mapping[str, CubinImage], device: int, refuse: Callable[[str, Exception], None] | None = None
) -> dict[str, Function]:
    """Loads kernels on device number `device`: functions for `Plan`, by the names of `images`. One cubin is loaded once.

    `refuse` is told of a kernel for which a program of the device has too little; where it returns, the kernel is left out. Raises
    `DriverError` for what else the driver refuses, and without `refuse` for that too.
    """
    cubins: dict[bytes, Cubin] = {}
    functions = {}
    for name, image in images.items():
        if image.cubin not in cubins:
            cubins[image.cubin] = Cubin(image.cubin, device)
        try:
            cubin = cubins[image.cubin]
            functions[name] = cubin.function(
                image.entry, image.warps, image.shared, image.location, image.early, image.maps
            )
        except KernelError as error:
            if refuse is None:
                raise
            refuse(name, error)
    return functions


def _no_streams(device: int) -> int:
    raise DriverError(f"this PyTorch ({torch.__version__}) is built without CUDA: install one that has it")


# The address of the stream that is current on device number `device`, as an integer.
current_stream = raw_stream or _no_streams


def capability(device: int) -> int:
    """The compute capability of a device, as in `sm_90`: 90."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def device_name(device: int) -> str:
    """ "NVIDIA H200"."""
    return torch.cuda.get_device_name(device)


def sm_count(device: int) -> int:
    """How many multiprocessors a device has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def memory_peak(device: int) -> float:
    """Bytes in a second that the clock and the width of a device's memory allow, two a cycle and line; 0 where PyTorch does not say."""
    told = torch.cuda.get_device_properties(device)
    return 2e3 * getattr(told, "memory_clock_rate", 0) * getattr(told, "memory_bus_width", 0) / 8


def clock(device: int) -> float:
    """Cycles in a second of a device's multiprocessors, at most; 0 where PyTorch does not say."""
    return 1e3 * getattr(torch.cuda.get_device_properties(device), "clock_rate", 0)


def l2_bytes(device: int) -> int:
    """How many bytes the L2 cache of a device has."""
    return torch.cuda.get_device_properties(device).L2_cache_size


__all__ = [
    "Cubin",
    "CubinImage",
    "DriverError",
    "Function",
    "KernelError",
    "Plan",
    "capability",
    "clock",
    "current_stream",
    "device_name",
    "l2_bytes",
    "load_kernels",
    "memory_peak",
    "open_driver",
    "sm_count",
]
