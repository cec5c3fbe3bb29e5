"""Kernels as a module of upstream dialects, ready for LLVM."""

from collections.abc import Collection

from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

from ..functions.transcendental import Functions
from ..kernels.entry import DECLARATIONS
from ..kernels.kernel import KernelFunction
from ..values.target import Target
from .bf16_bits import bf16_to_bits


def lower_kernels(
    module: ir.Module, target: Target, names: Collection[str] | None = None
) -> tuple[ir.Module, list[str], list[str]]:
    """A new module of upstream dialects with an entry a kernel, or one for each of `names`; the kernels' names and those of the library
    functions called."""
    with module.context, ir.Location.unknown():
        kernels = [KernelFunction(f, target) for f in functions(module) if _is_kernel(f, names)]
        lowered = ir.Module.parse(DECLARATIONS + "".join(kernel.skeleton() for kernel in kernels))
        table = ir.SymbolTable(lowered.operation)
        called = Functions(target)
        for kernel in kernels:
            kernel.fill(table, called)
        with ir.InsertionPoint.at_block_begin(lowered.body):
            for name, type_ in called.declared.items():
                attributes = {
                    "sym_name": ir.StringAttr.get(name),
                    "function_type": ir.TypeAttr.get(type_),
                    "sym_visibility": ir.StringAttr.get("private"),
                }
                ir.Operation.create("func.func", attributes=attributes, regions=1)
        if any(isinstance(type_, ir.BF16Type) for kernel in kernels for type_ in kernel.body.types.values()):
            bf16_to_bits(lowered)
    return lowered, [kernel.name for kernel in kernels], list(called.declared)


def _is_kernel(function: ir.Operation, names: Collection[str] | None) -> bool:
    return kernel_op(function) is not None and (names is None or function.attributes["sym_name"].value in names)
