"""The least that a launch can take: its bytes at the rate of the machine's memory, or its operations at that of its units."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from ..dialect.analysis.bodies.body_summary import Body
from ..dialect.analysis.bodies.body_tree import ACCESSES, LOOPS, Block
from ..dialect.interpreter.maps import evaluate
from ..dialect.ir.functions import kernel_op
from ..dialect.machines.measures import value
from ..dialect.mlir import ir
from ..manifest.kernels import Points, flops_of


@dataclass(frozen=True)
class Work:
    """What one launch reads, writes (bytes, an element once however often) and computes (scalar operations on floats)."""

    bytes_read: int
    bytes_written: int
    flops: int


@dataclass(frozen=True)
class Rates:
    """Of a machine file: bytes and operations in a second; those on 16 bits apart where products of them have units of their own."""

    machine: str
    memory: float
    operations: float
    operations_16: float

    @staticmethod
    def of(target: str, vector_bits: int = 0, threads: int = 1) -> "Rates":
        if target == "cuda":
            rates = (value("h200", name) for name in ("memory_rate", "product_rate_f32", "product_rate"))
            return Rates("h200", *rates)
        machine = "avx512" if vector_bits >= 512 else "avx2"
        operations = threads * value(machine, "flop_rate")
        return Rates(machine, value(machine, "memory_rate"), operations, operations)

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
