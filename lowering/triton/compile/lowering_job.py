"""The lowering of one kernel function to TTIR, in whatever process. Imports no PyTorch: a process that compiles kernels does it too."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import ClassVar

from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions
from bascule.dialect.mlir import ir

from ..kernels.dead_code import erase_dead_code
from ..kernels.kernel import KernelFunction
from ..kernels.triton_kernel import TritonKernel, triton_kernel


@dataclass(frozen=True)
class Lowered:
    """The variants of a kernel, and how they are launched: see `Launch`."""

    kernels: Sequence[TritonKernel]
    grid: ir.AffineMap
    index_bits: int
    narrow: ir.AffineMap | None

    @classmethod
    def of(cls, function: ir.Operation) -> "Lowered":
        """Of a kernel function whose arguments say which of them are aligned. To be called in its context, which allows unregistered dialects:
        Triton's lives in another build of MLIR. Raises `UnsupportedError`, with the location."""
        kernel = KernelFunction(function)
        kernels = []
        for variant in kernel.variants:
            alone = ir.Module.create()
            kernel.emit(alone.body, variant)
            erase_dead_code(alone)
            kernels.append(triton_kernel(alone))
        grid = kernels[0].grid
        assert grid is not None, "it is launched"
        return cls(kernels, grid, kernel.schedule.index_bits, kernel.schedule.narrow)


def load() -> None:
    """All is loaded with this file, but for MLIR's dialects."""
    context()


@dataclass(frozen=True)
class LoweringJob:
    """A kernel function on its way to another process."""

    part: ClassVar[str] = "lowering_job"
    name: str
    function: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, function: ir.Operation) -> "LoweringJob":
        content = BytesIO()
        function.write_bytecode(content)
        return cls(name, content.getvalue())

    def answer(self) -> "LoweringAnswer":
        """Raises what `Lowered.of` does; ImportError where PyTorch is needed."""
        with context(unregistered=True), ir.Location.unknown():
            module = ir.Module.parse(self.function)
            (function,) = functions(module)
            lowered = Lowered.of(function)
            narrow = None if lowered.narrow is None else str(lowered.narrow)
            kernels = [replace(kernel, grid=None) for kernel in lowered.kernels]
            return LoweringAnswer(kernels, str(lowered.grid), lowered.index_bits, narrow)


@dataclass(frozen=True)
class LoweringAnswer:
    """`Lowered`, as text."""

    kernels: Sequence[TritonKernel]
    grid: str
    index_bits: int
    narrow: str | None

    def here(self) -> Lowered:
        """In the current context."""
        grid, narrow = _map(self.grid), None if self.narrow is None else _map(self.narrow)
        return Lowered([replace(kernel, grid=grid) for kernel in self.kernels], grid, self.index_bits, narrow)


def _map(text: str) -> ir.AffineMap:
    return ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<{text}>")).value
