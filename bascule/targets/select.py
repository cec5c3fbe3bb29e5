"""Selection of the target that kernels are compiled for: the CPU, a GPU through Triton, or Triton's IR interpreted on the CPU."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch

from bascule.lowering.program import Plans
from bascule.lowering.refusals import Refuse, reraise
from bascule.runtime.kernels.launch_plans import ALIGNED, NARROW, WIDE, Planner, variant_of
from bascule.runtime.kernels.reference_kernels import PartlyCompiledFunctions, PartlyCompiledPlans

from ..dialect.ir.functions import functions, kernel_op
from ..dialect.mlir import ir
from ..errors import UnsupportedError
from ..reporting.compile_record import Record
from ..reporting.logs import kernel_code
from .kernel_fallback import Refusals
from .kernel_images import LATER, cubin_images, start_cubin_images
from .placement import CPU, Placement


@dataclass(frozen=True)
class Compiled:
    """The kernels of a program, for `bascule.runtime.load`, and how `to_python` launches them.

    `pending`: there are none yet, other threads are at work on them; it waits and returns them.
    """

    kernels: Any
    plans: Plans | None = None
    pending: Callable[[], Any] | None = None

    def finished(self) -> "Compiled":
        """This, with its kernels. Raises what `Target.compile` does."""
        return self if self.pending is None else Compiled(self.pending(), self.plans)


class Target(Protocol):
    name: str
    cached: bool  # whether its kernels go to the disk cache

    @property
    def index(self) -> int | None:
        """The number of the GPU; None on a CPU."""
        ...

    @property
    def machine(self) -> Mapping[str, Any]:
        """Fields of passes that say what is compiled for."""
        ...

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        """Compiles the kernels of a module of the program stage, or begins to."""
        ...

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        """The kernels as bytes, for a package, and how `to_python` launches them. Nothing is loaded."""
        ...

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        """The kernels as bytes, for the disk cache (`machine_code.restored` loads them); None for a target that keeps nothing there. Names
        that end in `.json` are text."""
        ...


@dataclass(frozen=True)
class Cpu:
    """Machine code of MLIR's JIT."""

    name, index, cached = "cpu", None, True

    @property
    def machine(self) -> Mapping[str, Any]:
        from bascule.lowering.cpu import host, onednn_multiplies_faster

        return {"target": "cpu", "vector_bits": host().vector_bits, "onednn": onednn_multiplies_faster()}

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.lowering.cpu import CompiledKernels, start_compiling

        refusals = Refusals(module, record)
        if kernel_code.isEnabledFor(logging.DEBUG):
            for function in filter(kernel_op, functions(module)):
                kernel_code.debug("%s: %s", record.name, function)
        with record.stage("jit"):
            started = start_compiling(module, refuse=refusals)

        def beside_refused(kernels: CompiledKernels) -> Any:
            if not refusals.found:
                return kernels
            refusals.tell()
            return PartlyCompiledFunctions(kernels, refusals.references(CPU), refusals.symbols())

        def wait() -> Any:
            with record.stage("jit"):
                kernels = started.result()
            return beside_refused(kernels)

        if isinstance(started, CompiledKernels):
            return Compiled(beside_refused(started))
        return Compiled(None, pending=wait)

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        from bascule.lowering.cpu import compile_kernels

        with record.stage("jit"):
            return {"object": compile_kernels(module).object_code()}, None

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        return {"object": compiled.kernels.object_code()}


@dataclass(frozen=True)
class Interpret:
    """TTIR for an imagined GPU (an H100's numbers), run by the interpreter."""

    name, index, cached = "interpret", None, False

    @property
    def machine(self) -> Mapping[str, Any]:
        return {"target": "cuda"}

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.lowering.triton.interpreter.plans import InterpretedKernels
        from bascule.runtime.memory.poisoned_memory import PATTERN, begins_unwritten

        refusals = Refusals(module, record)
        lowered = _lower(module, record, refusals)
        kernels = _beside(refusals, InterpretedKernels(module, lowered, PATTERN, begins_unwritten), CPU)
        return Compiled(kernels, Plans("cpu", lowered.launches, record.name))

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        raise UnsupportedError("the target 'interpret' makes no machine code", hint="leave the option 'target' out")

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        return None


@dataclass(frozen=True)
class Cuda:
    """Machine code of Triton, launched through the CUDA driver. `index` is the device's number."""

    index: int
    name, cached = "cuda", True

    @property
    def machine(self) -> Mapping[str, Any]:
        from bascule.runtime.kernels.cuda_driver import capability, device_name, sm_count

        what = {"sm_count": sm_count(self.index), "capability": capability(self.index)}
        return {"target": "cuda", "device": device_name(self.index), **what}

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.runtime.kernels.cuda_kernels import PlannedKernels

        refusals = Refusals(module, record)
        kernels, plans = self._lowered(module, record, refusals)

        def refuse(name: str, error: Exception) -> None:
            refusals(name if name in plans.launches else name.removesuffix(variant_of(name)), error)

        likely = ALIGNED if record.aligned else NARROW
        sized = [name for name, launch in plans.launches.items() if launch.narrow is not None]
        later = {f"{name}{variant}" for name in sized for variant in (WIDE, NARROW, ALIGNED) if variant != likely}
        with record.stage("triton"):
            first = [kernel for name, kernel in kernels.items() if name not in later]
            started = start_cubin_images(self.index, first, cached=record.options.cache)

        def wait() -> Planner:
            with record.stage("triton"):
                images = started(refuse)
            with record.stage("load kernels"):
                refused = {f"{name}{variant}" for name in refusals.found for variant in (WIDE, NARROW, ALIGNED)}
                waiting = {name: kernels[name] for name in sorted(later - refused)}
                compiler = partial(cubin_images, self.index, cached=record.options.cache)
                planned = PlannedKernels(images, self.index, waiting, compiler, refuse)
            return _beside(refusals, planned, torch.device("cuda", self.index))

        return Compiled(None, plans, pending=wait)

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        from bascule.runtime.kernels.cubin_images import blobs_of

        kernels, plans = self._lowered(module, record)
        with record.stage("triton"):
            return blobs_of(cubin_images(self.index, list(kernels.values()), cached=record.options.cache)), plans

    def _lowered(
        self, module: ir.Module, record: Record, refuse: Refuse | None = None
    ) -> tuple[dict[str, dict[str, Any]], Plans]:
        """Kernels by name, as the fields of `TritonKernel`."""
        lowered = _lower(module, record, refuse)
        kernels = {name: asdict(replace(kernel, grid=None)) for name, kernel in lowered.kernels.items()}
        return kernels, Plans(f"cuda:{self.index}", lowered.launches, record.name)

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        from bascule.runtime.kernels.cubin_images import blobs_of

        kernels = compiled.kernels
        return {**blobs_of(kernels.images), LATER: json.dumps(kernels.later).encode()}


def _beside(refusals: Refusals, planner: Planner, device: torch.device) -> Planner:
    """`planner`, with what runs instead of kernels that did not compile, of which the user is told."""
    if not refusals.found:
        return planner
    refusals.tell()
    references = refusals.references(device)
    names = {f"{name}{variant}": name for name in references for variant in (WIDE, NARROW, ALIGNED)}
    return PartlyCompiledPlans(planner, {launched: references[name] for launched, name in names.items()})


def _lower(module: ir.Module, record: Record, refuse: Refuse | None = None) -> Any:
    """`refuse`: see `bascule.lowering.refusals`; without it, a kernel that has no lowering is an error."""
    from bascule.lowering.triton.compile.programs import lower_kernels

    with record.stage("to-triton"):
        lowered = lower_kernels(module, refuse or reraise)
    for kernel in lowered.kernels.values():
        record.dump(f"{kernel.name}.ttir", kernel.ttir)
        kernel_code.debug("%s: %s\n%s", record.name, kernel.name, kernel.ttir)
    return lowered


def target_for(name: str, placement: Placement) -> Target:
    """The target that the option `target` chooses for a graph. Raises `UnsupportedError` for one that cannot take its tensors."""
    kind = placement.device.type
    if name == "auto":
        name = kind
    if (name == "cuda") != (kind == "cuda"):
        raise UnsupportedError(
            f"the graph's tensors are on device '{placement.device}'",
            hint=f"the target '{name}' takes tensors on '{'cuda' if name == 'cuda' else 'cpu'}' only",
        )
    if name == "cuda":
        return Cuda(placement.device.index)
    return Cpu() if name == "cpu" else Interpret()
