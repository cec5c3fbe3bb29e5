"""Kernels to Triton IR: a kernel function of the program stage becomes one `tt.func`, which Triton compiles and `interpreter` runs on a CPU."""

from .compile.compilation import compile_kernel, compile_kernels
from .kernels.triton_kernel import TritonKernel, triton_kernels
from .to_triton import ToTriton

__all__ = ["ToTriton", "TritonKernel", "compile_kernel", "compile_kernels", "triton_kernels"]
