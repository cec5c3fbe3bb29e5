"""A kernel that does not compile, of a graph that otherwise does: it is run by the reference interpreter, as operations of PyTorch."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from ..dialect.ir.builders import symbols_of
from ..dialect.ir.functions import functions, kernel_op
from ..dialect.ir.locations import source_of
from ..dialect.mlir import ir
from ..errors import CompilerError, FallbackWarning, UserError
from ..reporting.compile_record import Record
from ..reporting.counters import count
from ..reporting.module_summary import operators_in
from ..reporting.warnings_later import warn

if TYPE_CHECKING:  # kernels that do not compile are few
    from ..dialect.interpreter.launch import ReferenceKernel


@dataclass
class Refusals:
    """The kernels of a module of the program stage that do not compile. A lowering calls it with a kernel's name and what was raised.

    Where `on_error` or `fallback` asks for something else, or no kernel of the graph compiles, it raises, and the whole graph runs otherwise.
    """

    module: ir.Module
    record: Record
    # Name -> what was raised, and the stage at work.
    found: dict[str, tuple[Exception, str]] = field(default_factory=dict)

    def __call__(self, name: str, error: Exception) -> None:
        options = self.record.options
        self.found.setdefault(name, (error, self.record.running))
        if options.on_error != "aten" or options.fallback == "error" or len(self.found) == len(self._kernels()):
            raise error

    def _kernels(self) -> dict[str, ir.Operation]:
        with self.module.context:
            return {f.attributes["sym_name"].value: f for f in functions(self.module) if kernel_op(f) is not None}

    def references(self, device: torch.device) -> "dict[str, ReferenceKernel]":
        """The functions that run instead of the refused kernels, on `device`."""
        from ..dialect.interpreter.launch import ReferenceKernel

        return {name: ReferenceKernel(self.module, name, device) for name in self.found}

    def symbols(self) -> dict[str, int]:
        """How many symbols each takes."""
        kernels = self._kernels()
        return {name: len(symbols_of(kernels[name])) for name in self.found}

    def tell(self) -> None:
        """Warns of each, once, counts it and notes it for `explain`."""
        from ..debugging.reproducer_ir import write_kernel

        kernels = self._kernels()
        with self.module.context:
            for name, (error, stage) in self.found.items():
                function = kernels[name]
                kernel = kernel_op(function)
                text = (
                    error.message
                    if isinstance(error, CompilerError | UserError)
                    else f"{type(error).__name__}: {error}"
                )
                path, replay = write_kernel(function, self.record, stage, error)
                about = ", ".join(filter(None, [*operators_in(function, kernel), source_of(kernel.location)]))
                self.record.refused.append(f"{name}: {text}" + (f"; reproducer: {path}" if path else ""))
                count("kernels", "refused")
                count("fallbacks", f"{stage}: {text}")
                warn(
                    f"kernel '{name}' of {self.record.name} ({about}) does not compile, and its operators run in PyTorch, slowly: {text}\n"
                    "  This is a bug in Bascule. Please report it"
                    + (f" with {path}\n  replay: {replay}" if path else "."),
                    FallbackWarning,
                    stacklevel=2,
                )
