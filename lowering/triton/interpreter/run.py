"""One launch: the programs of a grid run a kernel's TTIR over buffers."""

from collections.abc import Sequence
from math import prod

import torch
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.interpreter.values import dtype_of
from bascule.dialect.mlir import ir

from ..kernels.triton_kernel import DescriptorParameter, TritonKernel
from .boxes import Boxes
from .machine import Machine
from .memory import Memory, Pointer
from .operations import RULES

LANES = 1 << 20  # elements of a value of all programs that run in step: each value of a kernel is kept, and has as many
CLUSTER = 16  # programs that may pass values to each other, at most


def run_kernel(kernel: TritonKernel, arguments: Sequence[int | Memory]) -> None:
    """Runs all programs of `kernel`; `arguments` are its parameters: a number for each symbol, then the buffers, which it writes. Its tensor
    descriptors are made of these.

    Raises `InterpreterError`, with the source location, for an access out of bounds, a read of what nothing wrote, two programs at one
    place (unless both add atomically), and an operation the interpreter lacks.
    """
    ctx = ir.Context(load_on_create_dialects=[])  # the parser loads what it meets
    ctx.allow_unregistered_dialects = True
    symbols = [value for value in arguments if isinstance(value, int)]
    assert kernel.grid is not None, "a kernel without a grid runs nowhere"
    programs = int(evaluate(kernel.grid.results[0], (), symbols))
    for value in arguments:
        if isinstance(value, Memory):
            value.begin()
    with ctx:
        module = ir.Module.parse(kernel.ttir)
        block = next(iter(module.body.operations)).operation.regions[0].blocks[0]
        together = max(LANES // _lanes(block) // CLUSTER, 1) * CLUSTER
        for first in range(0, programs, together):
            _run(block, arguments, kernel.descriptors, first, min(together, programs - first))


def _run(
    block: ir.Block,
    arguments: Sequence[int | Memory],
    descriptors: Sequence[DescriptorParameter],
    first: int,
    programs: int,
) -> None:
    """Runs `programs` of a launch, from number `first` on."""
    machine = Machine(first, programs, torch.ones(programs, dtype=torch.bool), RULES)
    boxes = [Boxes.of(descriptor, arguments, first) for descriptor in descriptors]
    machine.env.update(zip(list(block.arguments)[len(arguments) :], boxes, strict=True))
    for argument, value in zip(block.arguments, arguments):
        if isinstance(value, Memory):
            machine.env[argument] = Pointer(value, torch.zeros(programs, dtype=torch.int64), first=first)
        else:
            machine.env[argument] = torch.full([programs], value, dtype=dtype_of(argument.type))
    machine.block(block)


def _lanes(block: ir.Block) -> int:
    """The elements of the largest value in a block and the regions of its operations."""
    found = 1
    for view in block.operations:
        types = [result.type for result in view.operation.results]
        found = max(found, *(prod(x.shape) for x in types if isinstance(x, ir.RankedTensorType)), 1)
        for region in view.operation.regions:
            found = max(found, *map(_lanes, region.blocks), 1)
    return found
