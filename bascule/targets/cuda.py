"""The target CUDA: machine code of Triton, launched by plans."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from bascule.lowering.program import Plans
from bascule.lowering.refusals import Refuse
from bascule.runtime.kernels.launch_plans import ALIGNED, NARROW, WIDE, Planner, variant_of

from ..dialect.mlir import ir
from ..reporting.compile_record import Record
from ..reporting.progress import shown
from .base import Compiled
from .kernel_fallback import Refusals
from .kernel_images import LATER, cubin_images, start_cubin_images
from .lower_to_triton import lower, with_references


@dataclass(frozen=True)
class Cuda:
    """Machine code of Triton, launched through the CUDA driver. `index` is the device's number."""

    index: int
    name, cached = "cuda", True

    @property
    def machine(self) -> Mapping[str, Any]:
        from bascule.runtime.kernels.cuda_driver import capability, device_name, l2_bytes, sm_count

        what = {
            "sm_count": sm_count(self.index),
            "capability": capability(self.index),
            "l2_bytes": l2_bytes(self.index),
        }
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
            record.kernels_done = started.compiling.done

        def wait() -> Planner:
            with shown(record), record.stage("triton"):
                images = started.result(refuse)
            record.kernels_done = None
            with record.stage("load kernels"):
                refused = {f"{name}{variant}" for name in refusals.found for variant in (WIDE, NARROW, ALIGNED)}
                waiting = {name: kernels[name] for name in sorted(later - refused)}
                compiler = partial(cubin_images, self.index, cached=record.options.cache)
                planned = PlannedKernels(images, self.index, waiting, compiler, refuse)
            return with_references(refusals, planned, torch.device("cuda", self.index))

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
        lowered = lower(module, record, refuse)
        kernels = {name: asdict(replace(kernel, grid=None)) for name, kernel in lowered.kernels.items()}
        return kernels, Plans(f"cuda:{self.index}", lowered.launches, record.name)

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        from bascule.runtime.kernels.cubin_images import blobs_of

        kernels = compiled.kernels
        return {**blobs_of(kernels.images), LATER: json.dumps(kernels.later).encode()}
