"""The kernels of a module as Triton's IR, for the targets that take it, and what runs instead of those that do not compile."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bascule.lowering.program import Launch
from bascule.lowering.refusals import Refuse, reraise
from bascule.runtime.kernels.launch_plans import ALIGNED, NARROW, WIDE, Planner
from bascule.runtime.kernels.reference_kernels import PartlyCompiledPlans

from ..dialect.mlir import ir
from ..reporting.compile_record import Record
from ..reporting.logs import kernel_code
from .kernel_fallback import Refusals


def lower(
    module: ir.Module, record: Record, refuse: Refuse | None = None, made: Callable[[Any, Launch], None] | None = None
) -> Any:
    """`refuse`: see `bascule.lowering.refusals`; without it, a kernel that has no lowering is an error. `made` is given the variants of each
    kernel, and how it is launched, before the next one is lowered."""
    from bascule.lowering.triton.compile.programs import lower_kernels

    def told(kernels: list[Any], launch: Launch) -> list[Any]:
        files = [f"{kernel.name}.ttir" for kernel in kernels]
        kernels = [replace(k, ttir=record.edits.get(file, k.ttir)) for k, file in zip(kernels, files)]
        if made is not None:
            made(kernels, launch)
        return kernels

    with record.stage("to-triton"):
        lowered = lower_kernels(module, refuse or reraise, told)
    for kernel in lowered.kernels.values():
        record.dump_stage(f"{kernel.name}.ttir", "to-triton", kernel.ttir)
        kernel_code.debug("%s: %s\n%s", record.name, kernel.name, kernel.ttir)
    return lowered


def with_references(refusals: Refusals, planner: Planner, device: torch.device) -> Planner:
    """`planner`, with what runs instead of kernels that did not compile, of which the user is told."""
    if not refusals.found:
        return planner
    refusals.tell()
    references = refusals.references(device)
    names = {f"{name}{variant}": name for name in references for variant in (WIDE, NARROW, ALIGNED)}
    return PartlyCompiledPlans(planner, {launched: references[name] for launched, name in names.items()})
