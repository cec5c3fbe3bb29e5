"""All kernels of a program as TTIR."""

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.shapes import expr, size_map
from bascule.dialect.mlir import ir

from ...program.alignment import mark_unaligned
from ...program.launches import Launch
from ...refusals import Refuse, reraise
from ..kernels.kernel import KernelFunction
from ..kernels.triton_kernel import LoweredKernels, triton_kernels


def lower_kernels(module: ir.Module, refuse: Refuse = reraise) -> LoweredKernels:
    """Lowers the kernel functions of `module` (program stage), whose calls say which buffers are aligned.

    `refuse` is told of a kernel that has no lowering, and what was raised: `UnsupportedError`, with the location. Where it returns, the
    kernel has no TTIR, and is launched with symbols of 64 bits.
    """
    with module.context as ctx, ir.Location.unknown():
        ctx.allow_unregistered_dialects = True  # Triton's dialect lives in another build of MLIR
        mark_unaligned(module)
        lowered = ir.Module.create()
        made, launches = [], {}
        for function in functions(module):
            if kernel_op(function) is None:
                continue
            before = len(lowered.body.operations)
            try:
                kernel = KernelFunction(function)
                for variant in kernel.variants:
                    kernel.emit(lowered.body, variant)
                made.append(kernel)
            except Exception as error:  # of one kernel: `refuse` tells of it, or raises
                pass_on(error)
                name = function.attributes["sym_name"].value
                refuse(name, error)
                for view in list(lowered.body.operations)[before:]:
                    view.operation.erase()
                launches[name] = refused_launch()
        kernels = {kernel.name: kernel for kernel in triton_kernels(lowered)}
    launches |= {k.name: Launch(kernels[k.name].grid, k.schedule.index_bits, k.schedule.narrow) for k in made}
    return LoweredKernels(kernels, launches)


def refused_launch() -> Launch:
    """How a kernel is launched that is run otherwise. To be called in a context."""
    return Launch(size_map([expr(1)]), 64)
