"""The pass `schedule-kernels`: how each kernel runs, decided once, as an attribute."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.costs import tensor_bytes
from ...errors import UserError
from ...ir.attributes import ScheduleAttr
from ...ir.builders import symbols_of
from ...ir.functions import functions, kernel_op
from ...mlir import ir
from ...scheduling.cpu.planner import CpuMachine, cpu_schedule
from ...scheduling.gpu.machine import H200, CudaMachine
from ...steering.asking import is_steered, schedule_of
from ...steering.hooks import Scheduling
from ..base import EITHER, Pass


@dataclass(frozen=True)
class ScheduleKernels(Pass):
    """Takes kernel functions; leaves `schedule = #bascule.schedule<{...}>` on each `bascule.kernel`. Changes nothing else.

    Of a CPU (`target = "cpu"`): `domain` says how the kernel's own ranges are walked, `loops` how each loop inside (`reduce`, `foreach`,
    `compute`, `scan`, numbered in the order of a walk that meets outer ones first). `nontemporal = true`: whole lines of tensors that it stores
    and does not read go past the caches, where their address is that of a line. Each of the first two is a dictionary:

        groups      the ranges, those of 1 left out, in order; neighbours in one array are walked as one loop
        vector      the group (its last range) that the lanes of a vector run along; -1: scalar code. Around loops with lanes none has them
        lanes       elements of a vector, a power of two: several registers' worth are so many operations in flight. 1 without `vector`
        prefetch    of a loop inside, with lanes: its reads along them that start elsewhere at other points around it ask for the memory
                    so many bytes further on. Left out where none do
        short       of a reduction with lanes along a group of a size that is not known: rows of so many points or fewer have lanes of one
                    register. Left out: none have
        joins       instead of all others: this reduction runs inside the loop of reduction number `joins`, its neighbour over equal ranges

    and, of a loop whose points threads share (the domain; or, of a kernel of one point, any `foreach` and `reduce` directly in it):

        blocked     the group cut into blocks: a tile is one block, at one point of the other groups. -1: none. With `vector`, equal to it
        block       points of a block; a multiple of `lanes`. A tile runs on one thread; a reduction has partial results, one a tile
        serial      groups walked in order inside each tile: their points may store to one place
        across      a group that reads run along while the lanes do not: they are read as tiles of `rows` points of it and transposed in
                    registers. Left out with `rows` and `tile` where there is none
        tile        "scratch": tiles of 16, 32 or 64 rows are kept in memory; "registers": squares of `lanes` rows, 16 at the most, are
                    not, and the loop's body is there once for each row
        grain       points that are worth one more thread
        fission     the points of a block go through the domain's region in phases: its loops point by point, functions that take long beside
                    them by so many lanes, a power of two that divides `block`. Left out: each point by itself

    Of an NVIDIA GPU (`target = "cuda"`): `kind` names what was recognised and decides nothing. A program is a tile of the domain:

        order       the domain's dims, slowest first, as they are flattened
        axes        how many consecutive dims of `order` make each axis of the tile
        tile        points of a program along each axis, powers of two. Programs are numbered with the last axis fastest
        programs    how many there are at most; each has tile after tile, and reads pieces of the next while it stores one. Left out: one a
                    tile
        consumers   warp groups that multiply a part of each tile while another one loads for them (warp specialization): 2 on sm_90, which
                    are all warps that the schedule has. Left out: each warp does both
        loops       one for each loop directly in the domain's region, in order:
          order       its ranges as they are flattened
          step        points at once, a power of two. A loop that has no more is one tile, read once and held in registers
          held        true, or left out: all its tiles of `step` points are there at once, as one tile would be
          dot         true, or left out: of a sum of products of a factor of the rows (the last axis but one of the tile) and one of the
                      columns (the last): tensor cores multiply pieces of `step` elements of both. Other axes have one point of a program,
                      and the domain no other loop but `segments`
          descriptors of a loop with `dot`: which of its factors, 0 and 1 in the order of the product, are loaded by tensor descriptors, on
                      sm_90 and later. Each is a matrix in memory, read as it is: its rows or what is summed contiguous, its strides and where
                      it begins multiples of 16 bytes. Left out: none
          skip        true, or left out: of the walk of an attention. It takes no steps before and after those in which the mask leaves
                      some row of the tile a score other than -inf; or of a sum that is cut, which goes from its first index to its end
          segments    true, or left out: of the count of the segments that end at or before a row (the last axis but one of the tile). No
                      tile of rows goes beyond the end of one, so that a program has its number once, and finds its rows by the ends
          kept        of a walk: what its first steps, so many, read stays in registers for later walks. Left out: nothing does
          walk        loops of one number are walked together; they have equal ranges and steps, and none needs another's result
          along       of a foreach that is held: the walk, point by point, of an earlier foreach over the ranges of its reductions.
                      They take in each of its points as it passes. -1: none
          loops       the same for the loops directly in it. One loop at most of those around a point has steps of more than 1
          evict       what its reads, where they vary with the domain, ask of the L2 cache: "normal", "first" or "last" to go
          fold        of a reduction's walk: a thread has one state, into which it takes its points of a step together; so many of them are
                      neighbours. 0: each place in a step has a state of its own
        group       so many tiles along the last axis but one go, with each along the last, before the next along the last: programs that
                    follow each other read what is in L2. Left out: the last axis is fastest
        parts       of a kernel without ranges that consists of `foreach`, instead of these keys: a dictionary of them for each
        warps       warps of a program
        cluster     so many programs, a power of two up to 8, which the GPU runs at the same time, share a tile: each has as much of every loop,
                    and what they reduced is exchanged. All loops are held, and the tile is of one point. Left out: a program has a tile alone
        resident    registers leave room for so many programs on a multiprocessor. Left out: as it comes
        index_bits  32 or 64
        narrow      with 64, where sizes are dynamic: indices of 32 bits do as long as all these are below 2**31 - 2**20
        stages      steps of a walk whose loads are in flight, through shared memory; 1: as they come
        capability  compute capability whose instructions may be used: 90 is sm_90
    """

    name: ClassVar[str] = "schedule-kernels"
    takes: ClassVar[str] = EITHER
    target: str = "cpu"
    vector_bits: int = 0  # of a vector register; 0: what the driver's machine has, 256 without one
    cache_bytes: int = 0  # of the processor's last cache; 0: not known
    keep: bool = False  # a kernel that has a schedule keeps it
    sm_count: int = H200.sm_count
    capability: int = H200.capability
    registers: int = H200.registers
    l2_bytes: int = H200.l2_bytes

    def run(self, module: ir.Module) -> None:
        schedule = self._scheduler()
        with module.context:
            simplifier = Simplifier()
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None and not (self.keep and "schedule" in kernel.attributes):
                    indexing = Indexing(symbols_of(function), simplifier)
                    chosen = schedule(kernel, indexing)
                    kernel.attributes["schedule"] = ScheduleAttr.get(
                        self._steered(function, kernel, chosen) if is_steered() else chosen
                    )

    def _steered(self, function: ir.Operation, kernel: ir.Operation, default: ir.DictAttr) -> ir.DictAttr:
        """Schedule that the plug-in makes of a kernel's."""
        body = Body(kernel)
        buffers = {access.buffer for access in body.accesses(body.root) if not access.is_near}
        total = sum(map(tensor_bytes, buffers))
        name = function.attributes["sym_name"].value
        return schedule_of(Scheduling(kernel, name, self.target, body.points, body.ops, total, default))

    def _scheduler(self) -> Callable[[ir.Operation, Indexing], ir.DictAttr]:
        """The choice of one kernel's schedule, for the machine of the options."""
        if self.target == "cpu":
            self._check("vector-bits", self.vector_bits, (0, 128, 256, 512))
            self._check("cache-bytes", self.cache_bytes, range(1 << 40))
            cpu = CpuMachine(self.vector_bits or 256, self.cache_bytes or CpuMachine.cache_bytes)
            return lambda kernel, indexing: cpu_schedule(kernel, cpu)
        if self.target == "cuda":
            from ...scheduling.gpu.planner import cuda_schedule  # what a CPU needs none of

            self._check("sm-count", self.sm_count, range(1, 1 << 16))
            self._check("capability", self.capability, range(70, 1000))
            self._check("registers", self.registers, range(1 << 14, 1 << 20))
            self._check("l2-bytes", self.l2_bytes, range(1 << 20, 1 << 32))
            cuda = CudaMachine(self.sm_count, self.capability, self.registers, self.l2_bytes)
            return lambda kernel, indexing: cuda_schedule(kernel, cuda, indexing)
        raise UserError(f"no schedules for target '{self.target}'", location=self.name, hint="known: cpu, cuda")

    def _check(self, option: str, value: int, allowed: Sequence[int]) -> None:
        if value not in allowed:
            known = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
            raise UserError(f"option '{option}' cannot be {value}", location=self.name, hint=f"known: {known}")
