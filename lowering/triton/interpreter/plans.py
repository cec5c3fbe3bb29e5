"""The kernels of a program as plans that the interpreter runs."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from bascule.dialect.interpreter.launch import Parameter, parameters_of
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

from bascule.compat.operators.dispatch import without_dispatch_modes

from ..kernels.triton_kernel import LoweredKernels, variants_of
from .memory import Memory, share
from .run import run_kernel


class InterpretedKernels:
    """Kernels that plans run on CPU memory, by the TTIR interpreter.

    `junk`: what memory holds that nothing wrote, if it lies where `unwritten` says of its address; see `Memory`.
    """

    def __init__(
        self,
        module: ir.Module,
        lowered: LoweredKernels,
        junk: bytes = b"",
        unwritten: Callable[[int], bool] = lambda address: False,
    ):
        self.kernels, self.junk, self.unwritten = lowered.kernels, junk, unwritten
        self.parameters: dict[str, list[Parameter]] = {}
        with module.context:
            table = ir.SymbolTable(module.operation)
            for function in functions(module):
                if kernel_op(function) is not None:
                    parameters = parameters_of(function, table)
                    name = function.attributes["sym_name"].value
                    self.parameters |= dict.fromkeys(variants_of(name), parameters)
        self.context = module.context  # the expressions live in it

    def run(self, name: str, symbols: Sequence[int], addresses: Sequence[int]) -> None:
        """One launch."""
        buffers = []
        for parameter, address in zip(self.parameters[name], addresses, strict=True):
            cpu = torch.device("cpu")
            # A pointer that is 0 has no elements.
            tensor = parameter.at(address, symbols, cpu) if address else torch.empty(0, dtype=parameter.dtype)
            buffers.append(Memory(tensor, junk=self.junk if self.unwritten(address) else b""))
        with without_dispatch_modes():  # which see no operation of a kernel
            share(buffers)
            run_kernel(self.kernels[name], [*symbols, *buffers])

    def plan(self, launches: list[tuple[str, Any, list[tuple]]]) -> Callable[..., None]:
        """A function of a stream, which it does not use, and of slots: see `bascule.runtime.kernels.launch_plans`."""

        def plan(stream: int, *slots: int) -> None:
            for name, _, arguments in launches:
                words = [slots[number] + offset for _, number, offset, kind in arguments]
                count = sum(kind != "ptr" for *_, kind in arguments)
                self.run(name, words[:count], words[count:])

        return plan
