"""All kernels of a program: as TTIR, and as plans that the interpreter runs."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.analysis.buffers import Sizes, strides
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.scalar_types import scalar_type_of
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from ..program.alignment import mark_unaligned
from ..program.launches import Launch
from .compilation import TritonKernel, triton_kernels
from .interpreter import Memory, run_kernel
from .kernel import KernelFunction


@dataclass(frozen=True)
class LoweredKernels:
    """The kernels of a program by name: their TTIR, and how each is launched."""

    kernels: Mapping[str, TritonKernel]
    launches: Mapping[str, Launch]


def lower_kernels(module: ir.Module) -> LoweredKernels:
    """Lowers the kernel functions of `module` (program stage), whose calls say which buffers are aligned.

    Raises `UnsupportedError`, with the location, for a kernel that has no lowering."""
    with module.context as ctx, ir.Location.unknown():
        ctx.allow_unregistered_dialects = True  # Triton's dialect lives in another build of MLIR
        mark_unaligned(module)
        lowered = ir.Module.create()
        bits = {}
        for function in functions(module):
            if kernel_op(function) is not None:
                made = KernelFunction(function).emit(lowered.body)
                types = made.attributes["function_type"].value.inputs
                bits[made.attributes["sym_name"].value] = types[0].width if symbols_of(function) else 32
        kernels = {kernel.name: kernel for kernel in triton_kernels(lowered)}
    return LoweredKernels(kernels, {name: Launch(kernels[name].grid, bits[name]) for name in kernels})


@dataclass(frozen=True)
class Parameter:
    """A buffer that a kernel takes: its sizes and strides are expressions of the symbols."""

    dtype: torch.dtype
    sizes: Sequence[ir.AffineExpr]
    strides: Sequence[ir.AffineExpr]

    def at(self, address: int, symbols: Sequence[int]) -> torch.Tensor:
        """The tensor whose first element lies at `address`."""
        size, stride = ([int(evaluate(e, (), symbols)) for e in exprs] for exprs in (self.sizes, self.strides))
        if 0 in size:
            return torch.empty(size, dtype=self.dtype)
        extent = 1 + sum((n - 1) * step for n, step in zip(size, stride))
        memory = (ctypes.c_uint8 * (extent * self.dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=self.dtype).as_strided(size, stride)


class InterpretedKernels:
    """Kernels that plans run on CPU memory, by the TTIR interpreter. Buffers at one address are one to its checks."""

    def __init__(self, module: ir.Module, lowered: LoweredKernels):
        self.kernels = lowered.kernels
        self.parameters: dict[str, list[Parameter]] = {}
        with module.context:
            table = ir.SymbolTable(module.operation)
            for function in functions(module):
                if kernel_op(function) is not None:
                    sizes = Sizes(function, table)
                    arguments = list(function.regions[0].blocks[0].arguments)[len(symbols_of(function)) :]
                    self.parameters[function.attributes["sym_name"].value] = [
                        Parameter(
                            getattr(torch, scalar_type_of(a.type.element_type)),
                            [expr(e) for e in sizes.of(a)],
                            [expr(e) for e in strides(a.type)],
                        )
                        for a in arguments
                    ]
        self.context = module.context  # the expressions live in it

    def run(self, name: str, symbols: Sequence[int], addresses: Sequence[int]) -> None:
        """One launch."""
        known: dict[tuple, Memory] = {}
        buffers = []
        for parameter, address in zip(self.parameters[name], addresses, strict=True):
            tensor = parameter.at(address, symbols)
            key = address, tensor.dtype, tensor.shape, tensor.stride()
            buffers.append(known.setdefault(key, Memory(tensor)))
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
