"""Triton's own pipeline on the text of one kernel; checked on Triton 3.6, 3.7 and 3.8.

Imports Triton and edits of PTX alone, so that a process which does nothing else is there in half a second.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, ClassVar

from bascule.dialect.interrupts import pass_on, tolerating

from .ptx_edits import reassemble

METADATA = ("name", "shared", "num_warps", "global_scratch_size", "profile_scratch_size", "tensordesc_meta")


def load() -> None:
    """Loads Triton, takes the hash of it that its cache wants, and makes LLVM's tables. What fails here fails again with a kernel."""
    empty = "module { tt.func public @empty() { tt.return } }"
    with tolerating(Exception):
        Job("empty", empty, 80, {"num_warps": 4, "num_stages": 2}).run()


@dataclass(frozen=True)
class Compiled:
    """The parts of Triton's compiled kernel that are taken from another process: of `metadata` those named in `METADATA`."""

    asm: dict[str, Any] = field(repr=False)
    metadata: SimpleNamespace


@dataclass(frozen=True)
class Job:
    """A kernel as text in the spelling of the Triton that is installed, for compute capability `capability` (90 is sm_90); the rest: see
    `TritonKernel`."""

    part: ClassVar[str] = "triton_job"
    name: str
    ttir: str = field(repr=False)
    capability: int
    options: dict[str, Any]  # of Triton's
    resident: int = 0
    cluster: int = 1

    def run(self) -> Any:
        """Triton's compiled kernel; `.asm` has its `ttgir`, `ptx` and `cubin`, `.metadata` what a launch needs. Triton caches it on disk.

        Raises what Triton does, and `CompilerError` for PTX that cannot be edited. An assertion of LLVM's ends the process.
        """
        import triton
        from triton.backends.compiler import GPUTarget

        target = GPUTarget("cuda", self.capability, 32)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.name}.ttir"
            path.write_text(self.ttir)
            try:
                compiled = triton.compile(str(path), target=target, options=self.options)
            except OSError as error:  # its cache cannot be written
                pass_on(error)
                with _private_cache():
                    compiled = triton.compile(str(path), target=target, options=self.options)
        reassemble(compiled, target, self.options, self.resident, self.cluster)
        return compiled

    def answer(self) -> Compiled:
        """`run`, as much of it as `machine_code` needs."""
        compiled = self.run()
        metadata = {name: getattr(compiled.metadata, name) for name in METADATA if hasattr(compiled.metadata, name)}
        return Compiled({kind: compiled.asm[kind] for kind in ("ttgir", "cubin")}, SimpleNamespace(**metadata))


_changing_knobs = Lock()


@contextmanager
def _private_cache() -> Iterator[None]:
    """Triton's cache is a fresh folder, which goes afterwards."""
    from triton import knobs

    with _changing_knobs, tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        yield
