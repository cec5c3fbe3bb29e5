"""One launch: the programs of a grid run a kernel's TTIR over buffers."""

from collections.abc import Sequence

import torch
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.interpreter.values import dtype_of
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir

from ..kernels.triton_kernel import TritonKernel
from .machine import Machine
from .memory import Memory, Pointer
from .operations import RULES


def run_kernel(kernel: TritonKernel, arguments: Sequence[int | Memory]) -> None:
    """Runs all programs of `kernel`; `arguments` are its parameters: a number for each symbol, then the buffers, which it writes.

    Raises `InterpreterError`, with the source location, for an access out of bounds, a read of what nothing wrote, two programs at one
    place (unless both add atomically), and an operation the interpreter lacks.
    """
    ctx = context()
    ctx.allow_unregistered_dialects = True
    symbols = [value for value in arguments if isinstance(value, int)]
    assert kernel.grid is not None, "a kernel without a grid runs nowhere"
    programs = int(evaluate(kernel.grid.results[0], (), symbols))
    with ctx:
        module = ir.Module.parse(kernel.ttir)
        function = next(iter(module.body.operations)).operation
        machine = Machine(programs, torch.ones(programs, dtype=torch.bool), RULES)
        block = function.regions[0].blocks[0]
        for argument, value in zip(block.arguments, arguments, strict=True):
            if isinstance(value, Memory):
                value.begin()
                machine.env[argument] = Pointer(value, torch.zeros(programs, dtype=torch.int64))
            else:
                machine.env[argument] = torch.full([programs], value, dtype=dtype_of(argument.type))
        if programs:
            machine.block(block)
