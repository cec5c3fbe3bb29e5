"""TTIR to machine code by Triton's own pipeline; checked on Triton 3.6, 3.7 and 3.8. No GPU is needed."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache as cached
from functools import partial
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Any

from bascule.dialect.errors import CompilerError, UserError
from bascule.dialect.interrupts import pass_on
from bascule.dialect.scheduling.gpu import clusters
from bascule.dialect.scheduling.gpu.descriptors import SINCE as DESCRIPTORS_SINCE
from bascule.dialect.scheduling.gpu.machine import SHARED

from bascule.compat.versions import check

from ...environment import changing_environment
from ...refusals import Refuse, reraise
from ...threads import start
from ..kernels.triton_kernel import TritonKernel
from ..values.dependent_launch import for_capability, waits
from . import ptxas
from .kernel_cache import KernelCache, MachineCode, key_of
from .ptx_edits import reassemble
from .tensor_maps import spelled, tensor_maps
from .warp_groups import as_made_by


def compile_kernel(kernel: TritonKernel, capability: int) -> Any:
    """Triton's compiled kernel for compute capability `capability` (90 is sm_90); `.asm` has its `ttgir`, `ptx` and `cubin`.

    Denormals are kept, as by torch's own kernels. Triton caches what it has compiled on disk. Raises `CompilerError` that names the kernel
    and the user's line, `UserError` for an architecture that Triton does not know, and RuntimeError for a Triton that is too old.
    """
    check("triton")
    if not ptxas.knows(capability):
        raise UserError(
            f"Triton {triton_version()} does not compile for sm_{capability}",
            location=kernel.location or None,
            hint="a newer Triton may know this GPU; eager and the target 'interpret' need none",
        )
    if kernel.cluster > 1 and not clusters.has(capability):
        raise UserError(
            f"{kernel.title} is scheduled for clusters of {kernel.cluster} programs, which sm_{capability} does not have",
            location=kernel.location or None,
            hint=f"schedule-kernels{{target=cuda capability={capability}}} makes schedules for it",
        )
    if kernel.descriptors and capability < DESCRIPTORS_SINCE:
        raise UserError(
            f"{kernel.title} is scheduled for tensor descriptors, which sm_{capability} does not have",
            location=kernel.location or None,
            hint=f"schedule-kernels{{target=cuda capability={capability}}} makes schedules for it",
        )
    try:
        return _compile(kernel, capability)
    except Exception as error:
        raise CompilerError(
            f"Triton does not compile {kernel.title} for sm_{capability}: {type(error).__name__}: {error}"
        ) from error


def _compile(kernel: TritonKernel, capability: int) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget

    target, kernel = GPUTarget("cuda", capability, 32), as_made_by(kernel, triton_version(), capability)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kernel.name}.ttir"
        path.write_text(spelled(for_capability(kernel.ttir, capability), triton_version()))
        try:
            compiled = triton.compile(str(path), target=target, options=_options(kernel))
        except OSError as error:  # its cache cannot be written
            pass_on(error)
            with _private_cache():
                compiled = triton.compile(str(path), target=target, options=_options(kernel))
    reassemble(compiled, target, _options(kernel), kernel.resident, kernel.cluster)
    return compiled


def _options(kernel: TritonKernel) -> dict[str, Any]:
    return {"num_warps": kernel.warps, "num_stages": kernel.stages, "enable_reflect_ftz": False}


_changing_knobs = Lock()


@contextmanager
def _private_cache() -> Iterator[None]:
    """Triton's cache is a fresh folder, which goes afterwards."""
    from triton import knobs

    with _changing_knobs, tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        yield


def _with_stages(kernel: TritonKernel, stages: int) -> TritonKernel:
    """The same with fewer pieces under way: what Triton passes through shared memory beside them is known when it has."""
    ttir = kernel.ttir.replace(f"tt.num_stages = {kernel.stages} :", f"tt.num_stages = {stages} :")
    return replace(kernel, ttir=ttir, stages=stages)


def _machine_code(kernel: TritonKernel, capability: int) -> MachineCode:
    most = SHARED.get(capability)
    compiled = compile_kernel(kernel, capability)
    while most is not None and compiled.metadata.shared > most and kernel.stages > 1:
        kernel = _with_stages(kernel, kernel.stages - 1)
        compiled = compile_kernel(kernel, capability)
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


def _threads() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Compiling:
    """Kernels at which other threads are at work; `found` has what the cache had."""

    kernels: Sequence[TritonKernel] = field(repr=False)
    keys: dict[str, str]  # name -> key
    found: dict[str, MachineCode] = field(repr=False)  # by key
    made: "Future[dict[str, MachineCode | Exception]] | None" = field(repr=False)  # by key
    finished: list[str] = field(default_factory=list)  # keys, as they are made

    def done(self) -> tuple[int, int]:
        """How many kernels are compiled, equal ones as one, and of how many."""
        return len(self.found) + len(self.finished), len(set(self.keys.values()))

    def result(self, refuse: Refuse = reraise) -> dict[str, MachineCode]:
        """Waits; returns machine code by name. `refuse`, what is left out and what is raised: see `compile_kernels`."""
        found: dict[str, MachineCode | Exception] = dict(self.found)
        if self.made is not None:
            found |= self.made.result()
        codes = {}
        for kernel in self.kernels:
            match found[self.keys[kernel.name]]:
                case MachineCode() as code:
                    codes[kernel.name] = replace(code, location=kernel.location)
                case CompilerError() as error:
                    refuse(kernel.name, error)
                case Exception() as error:
                    raise error
        return codes


def start_compiling(kernels: Sequence[TritonKernel], capability: int, cache: KernelCache | None = None) -> Compiling:
    """`compile_kernels`, which does not wait for Triton."""
    cache = cache or KernelCache(None)
    conditions = {"triton": triton_version(), "capability": capability, "environment": changing_environment()}
    keys = {
        k.name: key_of(
            k.ttir, **conditions, **_options(k), resident=k.resident, cluster=k.cluster, descriptors=list(k.descriptors)
        )
        for k in kernels
    }
    found = cache.find(set(keys.values()))
    missing = {keys[kernel.name]: kernel for kernel in kernels if keys[kernel.name] not in found}
    finished: list[str] = []
    made = start(partial(_all_made, missing, capability, cache, finished)) if missing else None
    return Compiling(kernels, keys, found, made, finished)


def _all_made(
    kernels: Mapping[str, TritonKernel], capability: int, cache: KernelCache, finished: list[str]
) -> dict[str, MachineCode | Exception]:
    """Machine code by key, or why there is none. The longest kernels come first; `finished` receives their keys."""

    def make(key: str) -> MachineCode | Exception:
        try:
            code = _machine_code(kernels[key], capability)
        except Exception as error:  # raised, or told, by `Compiling.result`
            return error
        finally:
            finished.append(key)
        cache.put(key, code)
        return code

    order = sorted(kernels, key=lambda key: -len(kernels[key].ttir))
    with ThreadPoolExecutor(min(len(order), _threads())) as pool:  # Triton lets go of the interpreter's lock
        return dict(zip(order, pool.map(make, order)))


def compile_kernels(
    kernels: Sequence[TritonKernel], capability: int, cache: KernelCache | None = None, refuse: Refuse = reraise
) -> dict[str, MachineCode]:
    """Machine code of each kernel, by name, for compute capability `capability` (90 is sm_90).

    What `cache` (default: none) has is taken from there; the rest is compiled in parallel, and equal kernels once. `refuse` is told
    of a kernel that does not compile, and the `CompilerError`; where it returns, the kernel is left out. Raises `UserError` for an
    architecture that Triton does not know.
    """
    return start_compiling(kernels, capability, cache).result(refuse)
