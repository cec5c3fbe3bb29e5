"""Kernels to Triton IR: a kernel function of the program stage becomes one `tt.func`, which Triton compiles and `interpreter` runs on a CPU."""

from .compilation import compile_kernel, compile_kernels
from .to_triton import ToTriton
from .triton_kernel import TritonKernel, triton_kernels

__all__ = ["ToTriton", "TritonKernel", "compile_kernel", "compile_kernels", "triton_kernels"]
