"""Tensor descriptors: boxes of a strided tensor in a buffer, with zeros for what lies beyond its sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.mlir import ir

from ..kernels.triton_kernel import DescriptorParameter, Number
from .memory import Memory, Pointer, load

ALIGNMENT = 16  # bytes, of addresses and strides


@dataclass(frozen=True)
class Boxes:
    """A descriptor of programs from number `first` on: `what`, with the sizes and strides that it has in this launch."""

    what: DescriptorParameter
    memory: Memory
    sizes: list[int]
    strides: list[int]
    first: int

    @staticmethod
    def of(what: DescriptorParameter, arguments: Sequence[int | Memory], first: int) -> "Boxes":
        memory = arguments[what["parameter"]]
        assert isinstance(memory, Memory), "a tensor descriptor is of a buffer"
        sizes, strides = ([_computed(number, arguments) for number in what[name]] for name in ("sizes", "strides"))
        return Boxes(what, memory, sizes, strides, first)

    def load(self, op: ir.Operation, places: Sequence[torch.Tensor], active: torch.Tensor) -> torch.Tensor:
        """The boxes that begin at `places` along each dim, of the programs that are `active`."""
        self._check(op)
        self._check_begin(op, places[-1].reshape(-1).expand(len(active))[active])
        what, rank = self.what, len(self.what["box"])
        offset, inside = torch.tensor(what["start"]), active.reshape([-1] + [1] * rank)
        for dim, (place, size, stride, extent) in enumerate(zip(places, self.sizes, self.strides, what["box"])):
            along = [extent if dim == other else 1 for other in range(rank)]
            index = place.to(torch.int64).reshape([-1] + [1] * rank) + torch.arange(extent).reshape([1, *along])
            inside = inside & (index >= 0) & (index < size)
            offset = offset + index * stride
        inside = inside.expand(len(active), *what["box"])
        value = load(op, Pointer(self.memory, offset, first=self.first), inside)
        return torch.where(inside, value, 0)

    def _check_begin(self, op: ir.Operation, places: torch.Tensor) -> None:
        """Refuses what the hardware stops at: boxes that begin, along memory, at other places than multiples of 16 bytes."""
        wrong = places[places * self.memory.flat.itemsize % ALIGNMENT != 0]
        if len(wrong):
            told = f"element {int(wrong[0])} of {self.memory.flat.itemsize} bytes, no multiple of 16 bytes"
            raise error(op, f"has a box that begins at {told}")

    def _check(self, op: ir.Operation) -> None:
        """Refuses what the driver would."""
        width = self.memory.flat.itemsize
        *outer, last = self.strides
        begin = self.memory.bytes[0] + self.what["start"] * width
        if last != 1 or any(number % ALIGNMENT for number in (begin, *(stride * width for stride in outer))):
            raise error(
                op, f"has a tensor descriptor of strides {self.strides} at {begin:#x}, no multiples of 16 bytes"
            )


def _computed(number: Number, arguments: Sequence[int | Memory]) -> int:
    """`number` of the kernel's `arguments`."""
    if isinstance(number, int):
        return number
    values = [value if isinstance(value, int) else 0 for value in arguments]  # no size is of a buffer
    return sum(prod([factor, *(values[each] for each in those)]) for factor, *those in number)
