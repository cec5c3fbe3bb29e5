"""Tensor descriptors as Triton 3.6 to 3.8 spell them, and as the CUDA driver encodes them.

Triton compiles a parameter of such a type to the 128 bytes of a `CUtensorMap`, and tells in its metadata, in the order of the parameters, which
boxes its instructions copy (a load may take several) and how these are swizzled in shared memory.
"""

import re
from collections.abc import Sequence
from typing import Any, TypedDict

from bascule.dialect.errors import CompilerError

from ..kernels.triton_kernel import DescriptorParameter, Number, TritonKernel

PARAMETER = re.compile(r"(%[\w.$-]+): !tt\.tensordesc<")
COPY = re.compile(r"async_tma_copy_global_to_local (%[\w.$-]+)\[.*-> !ttg\.memdesc<((?:\d+x)+)")
WRAPPED = re.compile(r"!tt\.tensordesc<tensor<([^<>]*)>>")
BARE_SINCE = (3, 8)  # the version in which the type names no tensor
# CUtensorMapDataType, and bytes; of floats of 8 bits it has none: the copies are of bytes. A copy to TF32 rounds f32 on its way.
ELEMENTS = {"f16": (6, 2), "bf16": (9, 2), "tf32": (11, 4), **dict.fromkeys(("i8", "f8E4M3FN", "f8E5M2"), (0, 1))}


class TensorMap(TypedDict):
    """The arguments of `cuTensorMapEncodeTiled`, but for the address, which is `offset` bytes from the one in parameter number `parameter`.
    Dims are fastest first; `strides`, in bytes, are those of all but the first. Both may be of the kernel's parameters."""

    parameter: int
    offset: int
    element: int
    swizzle: int
    sizes: list[Number]
    strides: list[Number]
    box: list[int]


def spelled(ttir: str, version: str) -> str:
    """A kernel as text for Triton of `version`."""
    release = tuple(int(number) for number in version.split(".")[:2])
    return WRAPPED.sub(r"!tt.tensordesc<\1>", ttir) if release >= BARE_SINCE else ttir


def tensor_maps(kernel: TritonKernel, metadata: Sequence[dict[str, Any]], ttgir: str) -> list[TensorMap]:
    """The tensor maps that a kernel takes after its pointers; `metadata`: Triton's, of each; `ttgir`: the kernel in Triton's GPU dialect. Raises
    `CompilerError` if these are of something else."""
    boxes = [each["block_size"] for each in metadata]
    if [len(box) for box in boxes] != [len(each["box"]) for each in kernel.descriptors]:
        raise CompilerError(f"Triton tells of tensor maps of boxes {boxes} in {kernel.title}, which takes others")
    copied = _shapes_copied(ttgir) if metadata else []
    if len(copied) != len(metadata) or None in copied:
        raise CompilerError(
            f"{kernel.title} has no copy for each of its {len(metadata)} tensor maps in Triton's GPU dialect"
        )
    return [_encoded(own, told, shape or []) for own, told, shape in zip(kernel.descriptors, metadata, copied)]


def _shapes_copied(ttgir: str) -> list[list[int] | None]:
    """The shape that is copied by each tensor map at a time, None where nothing is. Of a tile that two warp groups share it is half of what
    the metadata tell, a box of which would overwrite what is beside."""
    copied = {name: [int(size) for size in sizes.split("x") if size] for name, sizes in COPY.findall(ttgir)}
    _, _, function = ttgir.partition("tt.func")
    return [copied.get(name) for name in PARAMETER.findall(function.partition("\n")[0])]


def _encoded(own: DescriptorParameter, told: dict[str, Any], copied: Sequence[int]) -> TensorMap:
    """A box is as large as what is copied, at most: of the batch, whose dims come first, that has none."""
    element, width = ELEMENTS[own["element"]]
    box = told["block_size"]
    sizes = [*box[: len(box) - len(copied)], *copied]
    return TensorMap(
        parameter=own["parameter"],
        offset=width * own["start"],
        element=element,
        swizzle=told["swizzle"],
        sizes=own["sizes"][::-1],
        strides=[_times(width, stride) for stride in own["strides"][-2::-1]],
        box=[*map(min, box, sizes)][::-1],
    )


def _times(width: int, number: Number) -> Number:
    return width * number if isinstance(number, int) else [[width * factor, *those] for factor, *those in number]
