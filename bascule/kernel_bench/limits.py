"""The least that a launch can take: its bytes at the rate of the machine's memory, or its operations at that of its units."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import torch

from bascule.runtime.kernels import cuda_driver

from ..dialect.analysis.bodies.body_summary import Body
from ..dialect.analysis.bodies.body_tree import ACCESSES, LOOPS, Block
from ..dialect.interpreter.maps import evaluate
from ..dialect.ir.functions import kernel_op
from ..dialect.machines.measures import value
from ..dialect.mlir import ir
from ..manifest.kernels import Points, flops_of


@dataclass(frozen=True)
class Work:
    """Totals of one launch: what it reads, writes (bytes, an element once however often) and computes (scalar operations on floats)."""

    bytes_read: int
    bytes_written: int
    flops: int


MEASURED = "h200"  # the GPU with a machine file
SAME = 0.05  # of two GPUs of one kind: clocks are told by drivers, peaks by data sheets


@dataclass(frozen=True)
class Gpu:
    """A GPU by what its driver tells. `memory`: bytes a second at its memory's clock; `units`: multiprocessors times their clock in Hz; both
    0 where PyTorch does not say. `capability`: 90 for sm_90."""

    name: str
    memory: float
    units: float
    capability: int

    @staticmethod
    def at(index: int) -> "Gpu":
        of = cuda_driver  # of the device `index`
        memory, units = of.memory_peak(index), of.sm_count(index) * of.clock(index)
        return Gpu(of.device_name(index), memory, units, of.capability(index))


@dataclass(frozen=True)
class Rates:
    """Of a machine file: bytes and operations in a second; those on 16 bits apart where products of them have units of their own. Of a GPU that
    has no file, those of the one that has, by the ratios of their clocks; without end the operations of one of another architecture."""

    machine: str
    memory: float
    operations: float
    operations_16: float

    @staticmethod
    def of(target: str, vector_bits: int = 0, threads: int = 1, gpu: Gpu | None = None) -> "Rates":
        if target == "cuda":
            return Rates._of_gpu(gpu)
        machine = "avx512" if vector_bits >= 512 else "avx2"
        operations = threads * value(machine, "flop_rate")
        return Rates(machine, value(machine, "memory_rate"), operations, operations)

    @staticmethod
    def _of_gpu(gpu: Gpu | None) -> "Rates":
        memory, *operations = (value(MEASURED, name) for name in ("memory_rate", "product_rate_f32", "product_rate"))
        if gpu is None or not (gpu.memory and gpu.units):
            return Rates(MEASURED, memory, *operations)
        scale = gpu.memory / value(MEASURED, "memory_peak")
        known = gpu.capability == value(MEASURED, "capability")
        units = gpu.units / (value(MEASURED, "sm_count") * value(MEASURED, "clock")) if known else inf
        if max(abs(scale - 1), abs(units - 1)) <= SAME:
            return Rates(MEASURED, memory, *operations)
        by = "clocks" if known else "the clock of its memory, operations not counted"
        return Rates(f"{MEASURED} for {gpu.name}, by {by}", memory * scale, *(rate * units for rate in operations))

    def limit_us(self, work: Work, dtypes: Sequence[torch.dtype]) -> float:
        halves = any(dtype.is_floating_point and dtype.itemsize < 4 for dtype in dtypes)
        operations = self.operations_16 if halves else self.operations
        return 1e6 * max((work.bytes_read + work.bytes_written) / self.memory, work.flops / operations)


def work_of(function: ir.Operation, buffers: Sequence[torch.Tensor], symbols: Sequence[int]) -> Work:
    """That of a launch of a kernel function on `buffers`. An access touches no more elements than it is made for: a gather of few rows reads
    those alone."""

    def points(sizes: Sequence[ir.AffineExpr]) -> int:
        return prod(int(evaluate(size, (), symbols)) for size in sizes)

    kernel = kernel_op(function)
    assert kernel is not None
    root = Body(kernel).root
    touched: dict[tuple[ir.Value, bool], int] = {}
    _count(root.blocks[0], points(root.sizes), points, touched)
    memrefs = [a for a in function.regions[0].blocks[0].arguments if isinstance(a.type, ir.MemRefType)]
    moved = {False: 0, True: 0}
    for argument, buffer in zip(memrefs, buffers, strict=True):
        for written in moved:
            moved[written] += min(touched.get((argument, written), 0), _elements(buffer)) * buffer.itemsize
    return Work(moved[False], moved[True], flops_of(kernel, points))


def _count(block: Block, times: int, points: Points, touched: dict[tuple[ir.Value, bool], int]) -> None:
    """Adds how often each buffer is read and written."""
    for node in block.nodes:
        if node.name in ACCESSES:
            key = node.op.operands[ACCESSES[node.name] - 1], ACCESSES[node.name] != 1
            touched[key] = touched.get(key, 0) + times
        inside = times * points(node.sizes) if node.name in LOOPS else times
        for inner in node.blocks:
            _count(inner, inside, points, touched)


def _elements(tensor: torch.Tensor) -> int:
    """How many different ones it has."""
    return prod(size for size, step in zip(tensor.shape, tensor.stride()) if step)
