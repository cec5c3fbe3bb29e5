"""All kernels of a program as TTIR."""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.shapes import expr, size_map
from bascule.dialect.mlir import ir

from ...program.alignment import mark_unaligned
from ...program.launches import Launch
from ...refusals import Refuse, reraise
from ...threads import as_done, processors
from ..kernels.triton_kernel import LoweredKernels, TritonKernel
from .compiler_process import COMPILER, JobFailed, Unavailable
from .lowering_job import Lowered, LoweringJob

log = logging.getLogger("bascule")

Variants = list[TritonKernel]  # of one kernel
# Kernels, from which on forks lower them: an answer takes as long as two to four kernels here (MobileNetV3, two cores, 2026-11-29).
MANY = 8


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
        for name, lower in _lowering(own):
            try:
                lowered = lower()
            except Exception as error:  # of one kernel: `refuse` tells of it, or raises
                pass_on(error)
                refuse(name, error)
                kernels[name], launches[name] = [], refused_launch()
            else:
                launches[name] = Launch(lowered.grid, lowered.index_bits, lowered.narrow)
                kernels[name] = made(list(lowered.kernels), launches[name])
    return LoweredKernels({k.name: k for name in own for k in kernels[name]}, {name: launches[name] for name in own})


def _lowering(own: Mapping[str, ir.Operation]) -> Iterator[tuple[str, Callable[[], Lowered]]]:
    """Each kernel by name, with what lowers it or has been: where there are many by forks, in the order in which they are done."""
    jobs = {name: LoweringJob.of(name, function) for name, function in own.items()}
    order = sorted(jobs, key=lambda name: -len(jobs[name].function))
    if len(own) < MANY or processors() <= 2 or not COMPILER.has_loaded(LoweringJob.part):
        for name in order:
            yield name, partial(Lowered.of, own[name])
        return
    for name, answer in as_done(lambda name: COMPILER.ask(jobs[name]), order, processors()):
        try:
            yield name, answer.result().here
        except (
            JobFailed,
            Unavailable,
        ) as error:  # here its error has the user's line, or there is none: a fork has no PyTorch
            log.debug("kernel '%s' is lowered in this process: %s", name, error)
            yield name, partial(Lowered.of, own[name])


def refused_launch() -> Launch:
    """How a kernel is launched that is run otherwise. To be called in a context."""
    return Launch(size_map([expr(1)]), 64)
