"""Whether the points of a kernel get in each other's way.

The interpreter runs all points of a kernel at once, op by op; a machine runs them in any order. The two agree only if no point
reads what another one writes. Memory that a kernel both reads and writes (in-place reuse, an arena) is watched for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..ir.regions import ops_in
from ..mlir import ir
from .errors import error


@dataclass(frozen=True)
class _Access:
    """`at`: bytes of the storage. `kernel` and `point`: of each, the point of the kernel and of the loop `loop`."""

    op: ir.Operation
    at: torch.Tensor
    kernel: torch.Tensor
    point: torch.Tensor
    loop: ir.Operation | None


@dataclass
class Watch:
    """The accesses of one launch to the storages that it both reads and writes."""

    storages: set[int]
    reads: dict[int, list[_Access]] = field(default_factory=dict)
    writes: dict[int, list[_Access]] = field(default_factory=dict)
    domains: int = 0  # points of the independent loops seen so far

    def note(
        self, op: ir.Operation, tensor: torch.Tensor, indices: Sequence[torch.Tensor], scope, writes: bool
    ) -> None:
        """Notes that `op` accesses `tensor[indices]` at the points of `scope`."""
        storage = tensor.untyped_storage().data_ptr()
        if storage not in self.storages or 0 in scope.axes:
            return
        place = torch.tensor(tensor.storage_offset())
        for index, stride in zip(indices, tensor.stride()):
            place = place + index * stride
        width = tensor.element_size()
        columns = [scope.spread(x) for x in (place * width, scope.kernel_point(), scope.loop_point())]
        if scope.mask is not None:
            kept = scope.spread(scope.mask)
            columns = [column[kept] for column in columns]
        at, kernel, point = (column.repeat_interleave(width) for column in columns)
        at = at + torch.arange(width).repeat(len(at) // width)
        kind = self.writes if writes else self.reads
        kind.setdefault(storage, []).append(_Access(op, at, kernel, point, scope.loop))

    def check(self) -> None:
        """Raises `InterpreterError` at a read of what another point writes."""
        for storage, reads in self.reads.items():
            writes = self.writes.get(storage, [])
            for read in reads:
                same = [w for w in writes if read.loop is not None and w.loop is not None and w.loop == read.loop]
                for others, attribute in ((writes, "kernel"), (same, "point")):
                    if others and _conflict(read, others, attribute):
                        what = "kernel" if attribute == "kernel" else "loop"
                        hint = "the points run in any order"
                        raise error(read.op, f"reads what another point of the {what} writes", hint)


def _conflict(read: _Access, writes: list[_Access], attribute: str) -> bool:
    """Whether a byte that is read is written at a point with another number."""
    at = torch.cat([write.at for write in writes])
    number = torch.cat([getattr(write, attribute) for write in writes])
    size = int(torch.cat([at, read.at, torch.zeros(1, dtype=torch.int64)]).max()) + 1
    first = torch.full((size,), torch.iinfo(torch.int64).max).scatter_reduce(0, at, number, "amin")
    last = torch.full((size,), -1).scatter_reduce(0, at, number, "amax")
    mine, written = getattr(read, attribute), last[read.at] >= 0
    return bool((written & ((first[read.at] != mine) | (last[read.at] != mine))).any())


def watch(region: ir.Region, values: dict) -> Watch | None:
    """A watch for a launch whose body is `region`, if memory that it reads and memory that it writes overlap."""
    read: set[int] = set()
    written: set[int] = set()
    kinds = {"tensor.extract": (read, 0), "memref.load": (read, 0), "bascule.store": (written, 1)}

    for op in (inner for view in region.blocks[0].operations for inner in ops_in(view.operation)):
        if op.name in kinds:
            kind, position = kinds[op.name]
            value = values.get(op.operands[position])
            tensor = getattr(value, "tensor", value)
            if isinstance(tensor, torch.Tensor):
                kind.add(tensor.untyped_storage().data_ptr())
    both = (read & written) - {0}
    return Watch(both) if both else None
