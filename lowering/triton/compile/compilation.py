"""TTIR to machine code by Triton's own pipeline. No GPU is needed."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache as cached
from importlib import metadata
from typing import Any

from bascule.dialect.errors import CompilerError, UserError
from bascule.dialect.interrupts import pass_on
from bascule.dialect.scheduling.gpu import clusters
from bascule.dialect.scheduling.gpu.descriptors import SINCE as DESCRIPTORS_SINCE
from bascule.dialect.scheduling.gpu.machine import SHARED

from bascule.compat.versions import check

from ..kernels.triton_kernel import TritonKernel
from ..values.dependent_launch import for_capability, waits
from . import ptxas
from .compiler_process import COMPILER, JobFailed
from .kernel_cache import MachineCode
from .tensor_maps import spelled, tensor_maps
from .triton_job import Job
from .warp_groups import as_made_by


def compile_kernel(kernel: TritonKernel, capability: int, run: Callable[[Job], Any] = Job.run) -> Any:
    """Triton's compiled kernel for compute capability `capability` (90 is sm_90); `.asm` has its `ttgir`, `ptx` and `cubin`.

    Denormals are kept, as by torch's own kernels. Triton caches what it has compiled on disk. `run`: where its pipeline runs. Raises
    `CompilerError` that names the kernel and the user's line, `UserError` for an architecture that Triton does not know, and RuntimeError for
    a Triton that is too old.
    """
    check("triton")
    if not ptxas.knows(capability):
        raise UserError(
            f"Triton {triton_version()} does not compile for sm_{capability}",
            location=kernel.location or None,
            hint="a newer Triton may know this GPU; eager and the target 'interpret' need none",
        )
    hint = f"schedule-kernels{{target=cuda capability={capability}}} makes schedules for it"
    if kernel.cluster > 1 and not clusters.has(capability):
        raise UserError(
            f"{kernel.title} is scheduled for clusters of {kernel.cluster} programs, which sm_{capability} does not have",
            location=kernel.location or None,
            hint=hint,
        )
    if kernel.descriptors and capability < DESCRIPTORS_SINCE:
        raise UserError(
            f"{kernel.title} is scheduled for tensor descriptors, which sm_{capability} does not have",
            location=kernel.location or None,
            hint=hint,
        )
    try:
        return run(_job(kernel, capability))
    except Exception as error:
        pass_on(error)
        told = str(error) if isinstance(error, JobFailed) else f"{type(error).__name__}: {error}"
        raise CompilerError(f"Triton does not compile {kernel.title} for sm_{capability}: {told}") from error


def _job(kernel: TritonKernel, capability: int) -> Job:
    made = as_made_by(kernel, triton_version(), capability)
    ttir = spelled(for_capability(made.ttir, capability), triton_version())
    return Job(made.name, ttir, capability, options_of(made), made.resident, made.cluster)


def options_of(kernel: TritonKernel) -> dict[str, Any]:
    """Triton's."""
    return {"num_warps": kernel.warps, "num_stages": kernel.stages, "enable_reflect_ftz": False}


def _with_stages(kernel: TritonKernel, stages: int) -> TritonKernel:
    """The same with fewer pieces under way: what Triton passes through shared memory beside them is known when it has."""
    ttir = kernel.ttir.replace(f"tt.num_stages = {kernel.stages} :", f"tt.num_stages = {stages} :")
    return replace(kernel, ttir=ttir, stages=stages)


def machine_code(kernel: TritonKernel, capability: int) -> MachineCode:
    """The part of `compile_kernel` that a launch needs, by a fork, with as many stages as fit in shared memory. Raises what that does."""
    most = SHARED.get(capability)
    compiled = compile_kernel(kernel, capability, COMPILER.run)
    while most is not None and compiled.metadata.shared > most and kernel.stages > 1:
        kernel = _with_stages(kernel, kernel.stages - 1)
        compiled = compile_kernel(kernel, capability, COMPILER.run)
    made = compiled.metadata
    for scratch in ("global_scratch_size", "profile_scratch_size"):
        if getattr(made, scratch, 0):
            raise CompilerError(
                f"{kernel.title} wants {getattr(made, scratch)} bytes of {scratch}, which the launcher does not give"
            )
    if most is not None and made.shared > most:
        raise CompilerError(
            f"{kernel.title} wants {made.shared} bytes of shared memory, and a program on sm_{capability} has {most}"
        )
    early = waits(for_capability(kernel.ttir, capability))
    maps = tensor_maps(kernel, getattr(made, "tensordesc_meta", None) or [], compiled.asm.get("ttgir", ""))
    return MachineCode(compiled.asm["cubin"], made.name, made.num_warps, made.shared, kernel.location, early, maps)


@cached
def triton_version() -> str:
    """Of the Triton that is installed. It takes a second to import, and a warm start needs none of it."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:  # it came under another name
        import triton

        return triton.__version__
