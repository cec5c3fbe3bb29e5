"""Kernels in which one warp group loads for two that multiply (warp specialization), as each Triton takes them.

Triton 3.6 makes them on sm_90. 3.7 and 3.8 refuse the copies of half a tile by the tensor map of all of it, which 3.6 leaves to the launcher to
be of the right box; there, and on other GPUs, all warps load and multiply.
"""

from dataclasses import replace

from bascule.dialect.scheduling.gpu.contractions import CONSUMERS, SPECIALIZES

from ..kernels.triton_kernel import TritonKernel
from ..values.builder import FLATTEN, SPECIALIZE

MADE_BY = "3.6."  # how the versions of Triton begin that make them


def as_made_by(kernel: TritonKernel, version: str, capability: int) -> TritonKernel:
    """The kernel for Triton of `version`, and for compute capability `capability`, which may be another than its schedule's."""
    if SPECIALIZE not in kernel.ttir or (capability // 10 == SPECIALIZES and version.startswith(MADE_BY)):
        return kernel
    return replace(kernel, ttir=kernel.ttir.replace(SPECIALIZE, FLATTEN), warps=CONSUMERS * kernel.warps)
