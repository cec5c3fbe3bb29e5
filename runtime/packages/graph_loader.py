"""The graphs of a package as functions: whole ones, and chains of them (`runtime/modules/split_graph.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..boxed import Boxed
from ..kernels.elf_loader import ObjectCode, ObjectCodeError
from ..kernels.launch_plans import Planner
from ..kernels.processor import instruction_sets
from ..memory.tensor_serialization import tensor_of
from ..modules.loading import Kernels, load
from ..modules.split_graph import chained, constant, located


def check_machine(processor: Sequence[str], capabilities: Mapping[str, int]) -> None:
    """Raises `ObjectCodeError` for a machine whose processor lacks one of the instruction sets `processor`, or whose GPUs are not those of
    `capabilities`, device -> architecture."""
    lacking = set(processor) - instruction_sets()
    if lacking:
        raise ObjectCodeError(
            f"compiled for a processor with {', '.join(sorted(lacking)[:8])}, which this one lacks: compile the program on this machine"
        )
    for device, wanted in capabilities.items():
        from ..kernels.cuda_driver import capability

        found = capability(torch.device(device).index)
        if found != wanted:
            raise ObjectCodeError(
                f"compiled for sm_{wanted}, and {device} is sm_{found}: compile the program for this GPU"
            )


@dataclass(frozen=True)
class Graphs:
    """Makes functions of what a package tells of graphs; `blobs` are the package's."""

    blobs: Mapping[str, bytes]

    def graph(self, told: Mapping[str, Any]) -> Boxed:
        if "chain" not in told:
            return self._whole(told)
        constants = [constant(x, lambda role: self.graph(role["graph"]), self._tensor) for x in told["constants"]]
        locations = {line: place for line, place in told["locations"] if place is not None}
        return chained(located(told["chain"], locations), constants)

    def _whole(self, told: Mapping[str, Any]) -> Boxed:
        folder = told["folder"]
        prefix = f"{folder}/kernels/"
        kernels = {name.removeprefix(prefix): blob for name, blob in self.blobs.items() if name.startswith(prefix)}
        source = self.blobs[f"{folder}/wrapper"].decode()
        return load(source, _kernels(torch.device(told["device"]), kernels), [*map(self._tensor, told["constants"])])

    def _tensor(self, told: Mapping[str, Any]) -> torch.Tensor:
        return tensor_of(told, self.blobs[told["blob"]])


def _kernels(device: torch.device, blobs: Mapping[str, bytes]) -> Kernels | Planner:
    """The compiled kernels, loaded for `device`."""
    if device.type == "cpu":
        return ObjectCode.load(blobs["object"])
    from ..kernels.cubin_images import images_of  # needs the native launcher, as nothing on a CPU does
    from ..kernels.cuda_kernels import PlannedKernels

    return PlannedKernels(images_of(blobs), device.index)
