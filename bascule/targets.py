"""What kernels are compiled for: the CPU, a GPU through Triton, or Triton's IR interpreted on the CPU."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from bascule.lowering.program import Plans
from bascule.runtime.object_code import ObjectCode

from .devices import Placement
from .dialect.mlir import ir
from .errors import UnsupportedError
from .record import Record


@dataclass(frozen=True)
class Compiled:
    """The kernels of a program, for `bascule.runtime.load`, and how `to_python` launches them."""

    kernels: Any
    plans: Plans | None = None


class Target(Protocol):
    name: str
    cached: bool  # whether its kernels go to the disk cache

    @property
    def machine(self) -> Mapping[str, Any]:
        """Fields of passes that say what is compiled for."""
        ...

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        """Compiles the kernels of a module of the program stage."""
        ...

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        """The kernels as bytes, for the disk cache; None for a target that keeps nothing there. Names that end in `.json` are text."""
        ...

    def restore(self, blobs: Mapping[str, bytes]) -> Compiled:
        """The kernels that `saved` wrote down."""
        ...


@dataclass(frozen=True)
class Cpu:
    """Machine code of MLIR's JIT."""

    name, cached = "cpu", True

    @property
    def machine(self) -> Mapping[str, Any]:
        from bascule.lowering.cpu import host, onednn_multiplies_faster

        return {"target": "cpu", "vector_bits": host().vector_bits, "onednn": onednn_multiplies_faster()}

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.lowering.cpu import compile_kernels

        with record.stage("jit"):
            return Compiled(compile_kernels(module))

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        return {"object": compiled.kernels.object_code()}

    def restore(self, blobs: Mapping[str, bytes]) -> Compiled:
        return Compiled(ObjectCode.load(blobs["object"]))


@dataclass(frozen=True)
class Interpret:
    """TTIR for an imagined GPU (an H100's numbers), run by the interpreter."""

    name, cached = "interpret", False

    @property
    def machine(self) -> Mapping[str, Any]:
        return {"target": "cuda"}

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.lowering.triton.programs import InterpretedKernels

        lowered = _lower(module, record)
        return Compiled(InterpretedKernels(module, lowered), Plans("cpu", lowered.launches, record.name))

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        return None

    def restore(self, blobs: Mapping[str, bytes]) -> Compiled:
        raise AssertionError("nothing of this target is kept")


@dataclass(frozen=True)
class Cuda:
    """Machine code of Triton, launched through the CUDA driver. `index` is the device's number."""

    index: int
    name, cached = "cuda", True

    @property
    def machine(self) -> Mapping[str, Any]:
        from bascule.runtime.cuda import capability, sm_count

        return {"target": "cuda", "sm_count": sm_count(self.index), "capability": capability(self.index)}

    def compile(self, module: ir.Module, record: Record) -> Compiled:
        from bascule.lowering.triton.compilation import compile_kernels
        from bascule.runtime.cuda import CubinImage, capability
        from bascule.runtime.planned_kernels import PlannedKernels

        lowered = _lower(module, record)
        with record.stage("triton"):
            machine_code = compile_kernels(list(lowered.kernels.values()), capability(self.index))
        images = {
            name: CubinImage(code.cubin, code.entry, code.warps, code.shared, code.location)
            for name, code in machine_code.items()
        }
        with record.stage("load kernels"):
            kernels = PlannedKernels(images, self.index)
        return Compiled(kernels, Plans(f"cuda:{self.index}", lowered.launches, record.name))

    def saved(self, compiled: Compiled) -> dict[str, bytes] | None:
        images = compiled.kernels.images
        told = {name: {k: v for k, v in asdict(image).items() if k != "cubin"} for name, image in images.items()}
        return {"images.json": json.dumps(told).encode(), **{name: image.cubin for name, image in images.items()}}

    def restore(self, blobs: Mapping[str, bytes]) -> Compiled:
        from bascule.runtime.cuda import CubinImage
        from bascule.runtime.planned_kernels import PlannedKernels

        told = json.loads(blobs["images.json"])
        images = {name: CubinImage(blobs[name], **values) for name, values in told.items()}
        return Compiled(PlannedKernels(images, self.index))


def _lower(module: ir.Module, record: Record) -> Any:
    from bascule.lowering.triton.programs import lower_kernels

    with record.stage("to-triton"):
        lowered = lower_kernels(module)
    for kernel in lowered.kernels.values():
        record.dump(f"{kernel.name}.ttir", kernel.ttir)
    return lowered


def target_for(name: str, placement: Placement) -> Target:
    """The target that the option `target` chooses for a graph. Raises `UnsupportedError` for one that cannot take its tensors."""
    kind = placement.device.type
    if name == "auto":
        name = kind
    if (name == "cuda") != (kind == "cuda"):
        raise UnsupportedError(
            f"the graph's tensors are on device '{placement.device}'",
            hint=f"the target '{name}' takes tensors on '{'cuda' if name == 'cuda' else 'cpu'}' only",
        )
    if name == "cuda":
        return Cuda(placement.device.index)
    return Cpu() if name == "cpu" else Interpret()
