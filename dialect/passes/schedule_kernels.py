"""The pass `schedule-kernels`: how each kernel runs, decided once, as an attribute."""

from dataclasses import dataclass
from typing import ClassVar

from ..analysis.indexing import Indexing
from ..analysis.schedules import CpuMachine, cpu_schedule
from ..analysis.simplification import Simplifier
from ..errors import UserError
from ..ir.attributes import ScheduleAttr
from ..ir.builders import symbols_of
from ..ir.functions import functions, kernel_op
from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class ScheduleKernels(Pass):
    """Takes kernel functions; leaves `schedule = #bascule.schedule<{...}>` on each `bascule.kernel`. Changes nothing else.

    A loop here is the kernel's domain (its block's indices) or a `reduce` / `foreach` / `compute` / `scan` directly in its region
    ("inner loops", numbered in order). The keys, all present unless said otherwise:

        target      "cpu"
        kind        "pointwise"  straight-line code at each point; lanes of a vector are points along domain dim `vector_dim`
                    "column"     inner loops run serially for a vector of points along domain dim `vector_dim`
                    "row"        one point at a time; inner loop number k is vectorised along its range number `loops[k]`
                    "scan"       at least one inner loop is a scan: as "column" if `vector_dim` is not -1, else as "row"
                    "scatter"    stores whose places may meet: see `serial`
                    "group"      no domain; top-level foreach number k is a launch of its own, run by `parts[k]`
        vector      lanes, in elements; 1 is scalar code. A power of two
        vector_dim  domain dim of the lanes, -1 for none ("row": -1)
        loops       i64 array, one an inner loop: the range vectorised, -1 for scalar code (all -1 unless "row" or "scan")
        unroll      vectors in flight along the vectorised loop (independent accumulators in a reduction)
        tile        i64 array, one a domain dim: points of that dim in a block, 0 for not tiled. A block is walked with the vectorised
                    dim innermost; where an access runs along another dim, it is read as a tile and transposed in registers
        grain       points of the domain (row-major) a parallel task takes at least; 0: run on the calling thread
        serial      true ("scatter"): stores of different points may meet, so points run in row-major order on one thread. Points along
                    `vector_dim`, if not -1, never meet: they may be lanes
        parts       "group" only: an array of dictionaries with kind .. serial for each top-level foreach (its own ranges are the domain,
                    its body the region)
    """

    name: ClassVar[str] = "schedule-kernels"
    target: str = "cpu"
    vector_bits: int = 256

    def run(self, module: ir.Module) -> None:
        if self.target != "cpu":
            raise UserError(f"no schedules for target '{self.target}'", location="schedule-kernels", hint="known: cpu")
        if self.vector_bits not in (128, 256, 512):
            raise UserError(
                f"vectors of {self.vector_bits} bits", location="schedule-kernels", hint="known: 128, 256, 512"
            )
        machine = CpuMachine(self.vector_bits)
        with module.context:
            simplifier = Simplifier()
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None:
                    indexing = Indexing(symbols_of(function), simplifier)
                    kernel.attributes["schedule"] = ScheduleAttr.get(cpu_schedule(kernel, machine, indexing))
