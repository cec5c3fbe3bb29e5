"""Kernels from the bytes that the disk cache keeps of them. No compiler is loaded until a call has sizes that need another variant."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from bascule.runtime.kernels.stored_kernels import kernels_of

if TYPE_CHECKING:
    from bascule.lowering.refusals import Refuse
    from bascule.lowering.triton.compile.kernel_cache import KernelCache, MachineCode
    from bascule.lowering.triton.compile.parallel import Compiling
    from bascule.runtime.kernels.cuda_driver import CubinImage

LATER = "later.json"  # the kernels that are compiled when a call needs them


def restored(target: str, device: int | None, blobs: Mapping[str, bytes]) -> Any:
    """The kernels that `Target.saved` of `target` ("cpu" or "cuda", on the GPU of number `device`) wrote down, for `bascule.runtime.load`.

    Raises `ObjectCodeError` or `DriverError` for what cannot be loaded.
    """
    if target == "cpu":
        return kernels_of(torch.device("cpu"), blobs)
    assert device is not None, "kernels of CUDA are a device's"
    return kernels_of(torch.device("cuda", device), blobs, json.loads(blobs[LATER]), partial(cubin_images, device))


def kernel_cache(used: bool) -> "KernelCache":
    """The user's, or, if it is not to be `used`, one that keeps nothing."""
    from bascule.lowering.triton.compile.kernel_cache import KernelCache

    from ..cache.disk.entry_paths import KERNELS
    from ..cache.stores.backed_store import store_of

    return KernelCache(store_of(KERNELS) if used else None)


def cubin_images(
    device: int, kernels: Sequence[Mapping[str, Any]], refuse: "Refuse | None" = None, *, cached: bool = True
) -> "dict[str, CubinImage]":
    """Machine code for the GPU of number `device`; `kernels` are given as the fields of `TritonKernel`. `refuse` is asked, and what is raised is
    raised, as in `compile_kernels`; `cached`: whether the disk cache is used."""
    from bascule.lowering.triton.kernels.triton_kernel import TritonKernel

    started = compiling_for(device, cached=cached)
    started.add([TritonKernel(**kernel) for kernel in kernels])
    return compiled_images(started, refuse)


def compiling_for(device: int, *, cached: bool = True) -> "Compiling":
    """To be given kernels for the GPU of number `device`, at which other threads work."""
    from bascule.lowering.triton.compile.parallel import Compiling
    from bascule.runtime.kernels.cuda_driver import capability

    return Compiling(capability(device), kernel_cache(cached))


def compiled_images(started: "Compiling", refuse: "Refuse | None" = None) -> "dict[str, CubinImage]":
    """Waits for them."""
    from bascule.lowering.refusals import reraise

    return {name: image_of(code) for name, code in started.result(refuse or reraise).items()}


def image_of(code: "MachineCode") -> "CubinImage":
    """Converts Triton's code to what is stored and loaded, in a process without Triton too: the same fields."""
    from bascule.runtime.kernels.cuda_driver import CubinImage

    return CubinImage(**vars(code))
