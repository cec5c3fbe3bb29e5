"""The target CPU: machine code of MLIR's JIT."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bascule.lowering.program import Plans
from bascule.runtime.kernels.reference_kernels import PartlyCompiledFunctions

from ..dialect.ir.functions import functions, kernel_op
from ..dialect.mlir import ir
from ..reporting.compile_record import Record
from ..reporting.logs import kernel_code
from ..reporting.progress import shown
from .base import Compiled
from .kernel_fallback import Refusals
from .placement import CPU


@dataclass(frozen=True)
class Cpu:
    """Machine code of MLIR's JIT."""

    name, index, cached = "cpu", None, True

    @property
    def machine(self) -> Mapping[str, Any]:
        from bascule.lowering.cpu import cache_bytes, host, onednn_multiplies_faster

        return {
            "target": "cpu",
            "vector_bits": host().vector_bits,
            "cache_bytes": cache_bytes(),
            "onednn": onednn_multiplies_faster(),
        }

    def prepare(self) -> None:
        """Its compiler is the one that the passes run in."""

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

        if isinstance(started, CompiledKernels):
            return Compiled(beside_refused(started))
        record.kernels_done = started.done

        def wait() -> Any:
            with shown(record), record.stage("jit"):
                kernels = started.result()
            record.kernels_done = None
            return beside_refused(kernels)

        return Compiled(None, pending=wait)

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        from bascule.lowering.cpu import compile_kernels

        with record.stage("jit"):
            return {"object": compile_kernels(module).object_code()}, None

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        return {"object": compiled.kernels.object_code()}
