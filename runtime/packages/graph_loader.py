"""Serialized graphs as functions again, whole ones and split ones (`runtime/modules/split_graph.py`): of a package, or of a cache entry."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..boxed import Boxed
from ..kernels.elf_loader import ObjectCodeError
from ..kernels.processor import instruction_sets
from ..kernels.stored_kernels import kernels_of
from ..memory.tensor_serialization import tensor_of
from ..modules.loading import load
from ..modules.split_graph import constant, load_split, located


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


class GraphReader(ABC):
    """Makes functions of what `bascule/compiled/serialized.py` tells of graphs; `blobs`: what is no JSON, by name. A subclass makes the whole
    ones."""

    def __init__(self, blobs: Mapping[str, bytes]):
        self.blobs = blobs

    def graph(self, told: Mapping[str, Any], name: str) -> Boxed:
        """The graph called `name`, whole or split."""
        if "chain" not in told:
            return self.whole(told, name)

        def subgraph(role: Mapping[str, Any]) -> Boxed:
            return self.graph(role["graph"], f"{name}_{role['name']}")

        constants = [constant(x, subgraph, self.tensor) for x in told["constants"]]
        locations = {line: place for line, known in told["locations"] if (place := self.line(known)) is not None}
        return self.split(told, name, located(told["chain"], locations), constants)

    @abstractmethod
    def whole(self, told: Mapping[str, Any], name: str) -> Boxed:
        """A graph that was compiled whole."""

    def split(self, told: Mapping[str, Any], name: str, source: str, constants: Sequence[Any]) -> Boxed:
        """A split graph, from its wrapper's `source` and what that holds."""
        return load_split(source, constants)

    def line(self, told: Any) -> str | None:
        """The user's line; None where there is none."""
        return told

    def tensor(self, told: Mapping[str, Any]) -> torch.Tensor:
        return tensor_of(told, self.blobs[told["blob"]])


class PackageReader(GraphReader):
    """Of the graphs of a package."""

    def whole(self, told: Mapping[str, Any], name: str) -> Boxed:
        folder = told["folder"]
        prefix = f"{folder}/kernels/"
        blobs = {name.removeprefix(prefix): blob for name, blob in self.blobs.items() if name.startswith(prefix)}
        source = self.blobs[f"{folder}/wrapper"].decode()
        kernels = kernels_of(torch.device(told["device"]), blobs)
        return load(source, kernels, [*map(self.tensor, told["constants"])])
