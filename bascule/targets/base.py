"""The protocol of a target, and what it compiles to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bascule.lowering.program import Plans

from ..dialect.mlir import ir
from ..reporting.compile_record import Record


@dataclass(frozen=True)
class Compiled:
    """The kernels of a program, for `bascule.runtime.load`, and how `to_python` launches them.

    `pending`: there are none yet, other threads are at work on them; it waits and returns them.
    """

    kernels: Any
    plans: Plans | None = None
    pending: Callable[[], Any] | None = None

    def finished(self) -> "Compiled":
        """This, with its kernels. Raises what `Target.compile` does."""
        return self if self.pending is None else Compiled(self.pending(), self.plans)


class Target(Protocol):
    name: str
    cached: bool  # whether its kernels go to the disk cache

    @property
    def index(self) -> int | None:
        """The number of the GPU; None on a CPU."""
        ...

    @property
    def machine(self) -> Mapping[str, Any]:
        """Fields of passes that say what is compiled for."""
        ...

    def prepare(self) -> None:
        """Begins to load what `compile` will need, in another process."""
        ...

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        """Compiles the kernels of a module of the program stage, or begins to."""
        ...

    def packaged(self, module: ir.Module, record: Record) -> tuple[dict[str, bytes], Plans | None]:
        """The kernels as bytes, for a package, and how `to_python` launches them. Nothing is loaded."""
        ...

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        """The kernels as bytes, for the disk cache (`kernel_images.restored` loads them); None for a target that keeps nothing there. Names
        that end in `.json` are text."""
        ...
