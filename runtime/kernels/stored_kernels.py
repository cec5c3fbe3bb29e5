"""Compiled kernels from the bytes that a package or an entry of the disk cache has of them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from .elf_loader import ObjectCode

if TYPE_CHECKING:
    from .cuda_driver import CubinImage
    from .cuda_kernels import PlannedKernels, Source

OBJECT = "object"  # the name of a CPU's


def kernels_of(
    device: torch.device,
    blobs: Mapping[str, bytes],
    later: "Mapping[str, Source] | None" = None,
    compiler: "Callable[[list[Source]], Mapping[str, CubinImage]]" = lambda sources: {},
) -> "ObjectCode | PlannedKernels":
    """The kernels, loaded for `device`; `later` and `compiler`: see `PlannedKernels`. Raises `ObjectCodeError` or `DriverError`."""
    if device.type == "cpu":
        return ObjectCode.load(blobs[OBJECT])
    from .cubin_images import images_of  # needs the native launcher, as nothing on a CPU does
    from .cuda_kernels import PlannedKernels

    return PlannedKernels(images_of(blobs), device.index, later, compiler)
