"""All kernels of a program: as TTIR, and as plans that the interpreter runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.interpreter.launch import Parameter, parameters_of
from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.shapes import expr, size_map
from bascule.dialect.mlir import ir

from ..program.alignment import mark_unaligned
from ..program.launches import Launch
from ..refusals import Refuse, reraise
from .compilation import TritonKernel, triton_kernels
from .interpreter import Memory, run_kernel, share
from .kernel import ALIGNED, NARROW, WIDE, KernelFunction


@dataclass(frozen=True)
class LoweredKernels:
    """The kernels of a program by name, each variant under its own: their TTIR. And how each is launched, all variants alike."""

    kernels: Mapping[str, TritonKernel]
    launches: Mapping[str, Launch]

    def kernel_of(self, name: str) -> str:
        """The kernel that `name` is, or is a variant of."""
        return next(kernel for kernel in self.launches if name in variants_of(kernel))


def lower_kernels(module: ir.Module, refuse: Refuse = reraise) -> LoweredKernels:
    """Lowers the kernel functions of `module` (program stage), whose calls say which buffers are aligned.

    `refuse` is told of a kernel that has no lowering, and what was raised: `UnsupportedError`, with the location. Where it returns, the
    kernel has no TTIR, and is launched with symbols of 64 bits.
    """
    with module.context as ctx, ir.Location.unknown():
        ctx.allow_unregistered_dialects = True  # Triton's dialect lives in another build of MLIR
        mark_unaligned(module)
        lowered = ir.Module.create()
        made, launches = [], {}
        for function in functions(module):
            if kernel_op(function) is None:
                continue
            before = len(lowered.body.operations)
            try:
                kernel = KernelFunction(function)
                for variant in kernel.variants:
                    kernel.emit(lowered.body, variant)
                made.append(kernel)
            except Exception as error:
                pass_on(error)
                name = function.attributes["sym_name"].value
                refuse(name, error)
                for view in list(lowered.body.operations)[before:]:
                    view.operation.erase()
                launches[name] = refused_launch()
        kernels = {kernel.name: kernel for kernel in triton_kernels(lowered)}
    launches |= {k.name: Launch(kernels[k.name].grid, k.schedule.index_bits, k.schedule.narrow) for k in made}
    return LoweredKernels(kernels, launches)


def variants_of(kernel: str) -> list[str]:
    """The names under which a kernel may be launched."""
    return [kernel + variant.suffix for variant in (WIDE, NARROW, ALIGNED)]


def refused_launch() -> Launch:
    """How a kernel is launched that is run otherwise. To be called in a context."""
    return Launch(size_map([expr(1)]), 64)


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
            tensor = parameter.at(address, symbols, torch.device("cpu"))
            buffers.append(Memory(tensor, junk=self.junk if self.unwritten(address) else b""))
        share(buffers)
        run_kernel(self.kernels[name], [*symbols, *buffers])

    def plan(self, launches: list[tuple[str, Any, list[tuple]]]) -> Callable[..., None]:
        """A function of a stream, which it does not use, and of slots: see `bascule.runtime.plans`."""

        def plan(stream: int, *slots: int) -> None:
            for name, _, arguments in launches:
                words = [slots[number] + offset for _, number, offset, kind in arguments]
                count = sum(kind != "ptr" for *_, kind in arguments)
                self.run(name, words[:count], words[count:])

        return plan


__all__ = ["InterpretedKernels", "LoweredKernels", "lower_kernels"]
