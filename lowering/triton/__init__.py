"""Kernels to Triton IR: a kernel function of the program stage becomes one `tt.func`, which Triton compiles and `interpreter` runs on a CPU.

Names are loaded when first used: the process that compiles kernels imports this package, and needs no MLIR.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compile.compilation import compile_kernel
    from .compile.parallel import compile_kernels
    from .kernels.triton_kernel import TritonKernel, triton_kernels
    from .to_triton import ToTriton

_PLACES = {
    "ToTriton": "to_triton",
    "TritonKernel": "kernels.triton_kernel",
    "compile_kernel": "compile.compilation",
    "compile_kernels": "compile.parallel",
    "triton_kernels": "kernels.triton_kernel",
}

__all__ = ["ToTriton", "TritonKernel", "compile_kernel", "compile_kernels", "triton_kernels"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
