"""Tensor descriptors as Triton 3.6 to 3.8 spell them, and as the CUDA driver encodes them.

Triton compiles a parameter of such a type to the 128 bytes of a `CUtensorMap`, and tells in its metadata, in the order of the parameters, which
boxes its instructions copy (a load may take several) and how these are swizzled in shared memory.
"""

import re
from collections.abc import Sequence
from typing import Any, TypedDict

from bascule.dialect.errors import CompilerError

from ..kernels.triton_kernel import DescriptorParameter, TritonKernel

WRAPPED = re.compile(r"!tt\.tensordesc<tensor<([^<>]*)>>")
BARE_SINCE = (3, 8)  # the version in which the type names no tensor
# CUtensorMapDataType, and bytes; of floats of 8 bits it has none: the copies are of bytes. A copy to TF32 rounds f32 on its way.
ELEMENTS = {"f16": (6, 2), "bf16": (9, 2), "tf32": (11, 4), **dict.fromkeys(("i8", "f8E4M3FN", "f8E5M2"), (0, 1))}


class TensorMap(TypedDict):
    """The arguments of `cuTensorMapEncodeTiled`, but for the address, which is `offset` bytes from the one in parameter number `parameter`.
    Dims are fastest first; `strides`, in bytes, are those of all but the first."""

    parameter: int
    offset: int
    element: int
    swizzle: int
    sizes: list[int]
    strides: list[int]
    box: list[int]


def spelled(ttir: str, version: str) -> str:
    """A kernel as text for Triton of `version`."""
    release = tuple(int(number) for number in version.split(".")[:2])
    return WRAPPED.sub(r"!tt.tensordesc<\1>", ttir) if release >= BARE_SINCE else ttir


def tensor_maps(kernel: TritonKernel, metadata: Sequence[dict[str, Any]]) -> list[TensorMap]:
    """The tensor maps that a kernel takes after its pointers; `metadata`: Triton's, of each. Raises `CompilerError` if that is of something
    else."""
    boxes = [each["block_size"] for each in metadata]
    if [len(box) for box in boxes] != [len(each["box"]) for each in kernel.descriptors]:
        raise CompilerError(f"Triton tells of tensor maps of boxes {boxes} in {kernel.title}, which takes others")
    return [_encoded(own, told) for own, told in zip(kernel.descriptors, metadata)]


def _encoded(own: DescriptorParameter, told: dict[str, Any]) -> TensorMap:
    element, width = ELEMENTS[own["element"]]
    return TensorMap(
        parameter=own["parameter"],
        offset=width * own["start"],
        element=element,
        swizzle=told["swizzle"],
        sizes=own["sizes"][::-1],
        strides=[width * stride for stride in own["strides"][-2::-1]],
        box=list(told["block_size"])[::-1],
    )
