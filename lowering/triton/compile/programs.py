"""All kernels of a program as TTIR."""

from collections.abc import Callable

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.shapes import expr, size_map
from bascule.dialect.mlir import ir

from ...program.alignment import mark_unaligned
from ...program.launches import Launch
from ...refusals import Refuse, reraise
from ..kernels.kernel import KernelFunction
from ..kernels.triton_kernel import LoweredKernels, TritonKernel, triton_kernel

Variants = list[TritonKernel]  # of one kernel


def lower_kernels(
    module: ir.Module,
    refuse: Refuse = reraise,
    made: Callable[[Variants, Launch], Variants] = lambda kernels, _: kernels,
) -> LoweredKernels:
    """Lowers the kernel functions of `module` (program stage), whose calls say which buffers are aligned.

    `refuse` is told of a kernel that has no lowering, and what was raised: `UnsupportedError`, with the location. Where it returns, the
    kernel has no TTIR, and is launched with symbols of 64 bits. `made` is given the variants of each other kernel and how it is launched as
    soon as they are there, the longest kernels first, and returns what to take for them.
    """
    kernels: dict[str, Variants] = {}
    launches: dict[str, Launch] = {}
    with module.context as ctx, ir.Location.unknown():
        ctx.allow_unregistered_dialects = True  # Triton's dialect lives in another build of MLIR
        mark_unaligned(module)
        own = {f.attributes["sym_name"].value: f for f in functions(module) if kernel_op(f) is not None}
        for name in sorted(own, key=lambda name: -len(own[name].get_asm(assume_verified=True))):
            try:
                kernels[name], launches[name] = _lowered(own[name])
            except Exception as error:  # of one kernel: `refuse` tells of it, or raises
                pass_on(error)
                refuse(name, error)
                kernels[name], launches[name] = [], refused_launch()
            else:
                kernels[name] = made(kernels[name], launches[name])
    return LoweredKernels({k.name: k for name in own for k in kernels[name]}, {name: launches[name] for name in own})


def _lowered(function: ir.Operation) -> tuple[Variants, Launch]:
    kernel = KernelFunction(function)
    variants = []
    for variant in kernel.variants:
        alone = ir.Module.create()
        kernel.emit(alone.body, variant)
        variants.append(triton_kernel(alone))
    return variants, Launch(variants[0].grid, kernel.schedule.index_bits, kernel.schedule.narrow)


def refused_launch() -> Launch:
    """How a kernel is launched that is run otherwise. To be called in a context."""
    return Launch(size_map([expr(1)]), 64)
