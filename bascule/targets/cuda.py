"""The target CUDA: machine code of Triton, launched by plans."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from bascule.lowering.program import Launch, Plans
from bascule.runtime.kernels.launch_plans import ALIGNED, NARROW, WIDE, Planner, variant_of

from ..dialect.mlir import ir
from ..reporting.compile_record import Record
from ..reporting.progress import shown
from .base import Compiled
from .kernel_fallback import Refusals
from .kernel_images import LATER, compiled_images, compiling_for, cubin_images
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

    def prepare(self) -> None:
        from bascule.lowering.triton.compile.compiler_process import COMPILER

        COMPILER.start()

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        """Triton's threads are at work on the first kernels while the others are lowered."""
        from bascule.runtime.kernels.cuda_kernels import PlannedKernels

        refusals = Refusals(module, record)
        likely = ALIGNED if record.aligned else NARROW
        started = compiling_for(self.index, cached=record.options.cache)
        record.kernels_done = started.done
        later: dict[str, dict[str, Any]] = {}

        def made(variants: Sequence[Any], launch: Launch) -> None:
            first = [k for k in variants if launch.narrow is None or k.name.endswith(likely)]
            started.add(first)
            later.update({k.name: fields_of(k) for k in variants if k not in first})

        try:
            lowered = lower(module, record, refusals, made)
        except BaseException:
            started.abandon()
            raise

        def refuse(name: str, error: Exception) -> None:
            refusals(name if name in lowered.launches else name.removesuffix(variant_of(name)), error)

        def wait() -> Planner:
            with shown(record), record.stage("triton"):
                images = compiled_images(started, refuse)
            record.kernels_done = None
            with record.stage("load kernels"):
                refused = {f"{name}{variant}" for name in refusals.found for variant in (WIDE, NARROW, ALIGNED)}
                waiting = {name: later[name] for name in sorted(later.keys() - refused)}
                compiler = partial(cubin_images, self.index, cached=record.options.cache)
                planned = PlannedKernels(images, self.index, waiting, compiler, refuse)
            return with_references(refusals, planned, torch.device("cuda", self.index))

        return Compiled(None, self._plans(lowered, record), pending=wait)

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        from bascule.runtime.kernels.cubin_images import blobs_of

        lowered = lower(module, record)
        with record.stage("triton"):
            kernels = [fields_of(kernel) for kernel in lowered.kernels.values()]
            blobs = blobs_of(cubin_images(self.index, kernels, cached=record.options.cache))
        return blobs, self._plans(lowered, record)

    def _plans(self, lowered: Any, record: Record) -> Plans:
        return Plans(f"cuda:{self.index}", lowered.launches, record.name)

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        from bascule.runtime.kernels.cubin_images import blobs_of

        kernels = compiled.kernels
        return {**blobs_of(kernels.images), LATER: json.dumps(kernels.later).encode()}


def fields_of(kernel: Any) -> dict[str, Any]:
    """A `TritonKernel` without the MLIR context that its grid keeps."""
    return asdict(replace(kernel, grid=None))
