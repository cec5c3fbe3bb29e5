"""The graph of a program on its way into a package: compiled whole, or in parts, each of which is a graph of the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from bascule.frontend.importer.graph import import_graph
from bascule.lowering.program import to_python

from ..compiled.compiled_graph import CompiledGraph, NotSerializable
from ..compiled.serialized import SerializedSplit, Writer
from ..compiler.compile_graph import checks_of
from ..compiler.whole_or_split import whole_or_split
from ..dialect.ir import context
from ..dialect.steering.asking import steered_by
from ..errors import UnsupportedError
from ..options import Options
from ..pipelines import pipeline_for
from ..reporting.compile_record import Record
from ..targets.placement import placement_of
from ..targets.select import target_for


@dataclass(frozen=True)
class PackagedGraph:
    """A graph that was compiled whole: the wrapper's source, kernels by name, what the wrapper holds, where it runs."""

    wrapper: str
    kernels: dict[str, bytes]
    constants: Sequence[torch.Tensor]
    device: torch.device


class PackageWriter(Writer[PackagedGraph]):
    """Tells of the graphs of a package (`runtime/packages/graph_loader.py` makes them again). `devices`: those that they run on."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[torch.device] = set()

    def whole(self, serialized: PackagedGraph) -> dict[str, Any]:
        folder = f"graphs/{len(self.blobs)}"
        self.devices.add(serialized.device)
        self.blobs[f"{folder}/wrapper"] = serialized.wrapper.encode()
        self.blobs |= {f"{folder}/kernels/{name}": blob for name, blob in serialized.kernels.items()}
        return {
            "folder": folder,
            "device": str(serialized.device),
            "constants": [*map(self.tensor, serialized.constants)],
        }

    def line(self, place: str) -> str:
        return place


def _never_called(args: list[Any]) -> NoReturn:
    """Where only what is kept of a compiled graph counts."""
    raise AssertionError("a graph that was compiled for a package is called")


def packaged(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], options: Options, name: str = "program"
) -> PackagedGraph | SerializedSplit:
    """`gm` compiled, in parts where `compile_graph` would. `inputs`: the fake value of each placeholder. Raises `UnsupportedError` for a graph
    that calls what is only known to this process."""
    record = Record(name, options, nodes=len(gm.graph.nodes))

    def compile_subgraph(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> tuple[CompiledGraph, Record]:
        part = Record(f"{name}_{suffix}", options, nodes=len(gm.graph.nodes))
        return CompiledGraph(_never_called, _whole(gm, inputs, options, part)), part

    def compile_body(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> CompiledGraph:
        return CompiledGraph(_never_called, packaged(gm, inputs, options, f"{name}_{suffix}"))

    def compile_whole() -> CompiledGraph:
        return CompiledGraph(_never_called, _whole(gm, inputs, options, record))

    compiled, _ = whole_or_split(gm, options, record, compile_whole, compile_subgraph, compile_body)
    return _serialized(compiled, record)


def _serialized(graph: CompiledGraph, record: Record) -> Any:
    try:
        return graph.entry()
    except NotSerializable as reason:
        cut = record.cuts[0]
        hint = "a package holds compiled graphs, tensors, and operators and functions of PyTorch by name; torch.library makes operators"
        raise UnsupportedError(
            f"no package can have {reason}", operator=cut.operator, location=cut.location, hint=hint
        ) from None


def _whole(gm: torch.fx.GraphModule, inputs: Sequence[Any], options: Options, record: Record) -> PackagedGraph:
    placement = placement_of(gm)
    target = target_for(options.target, placement)
    imported = import_graph(gm, inputs, context=context())
    placement.annotate(imported.module)
    with steered_by(options.hooks):
        pipeline_for(options, target.machine).run(imported.module, verify=options.verify, observers=[record.observe])
    kernels, plans = target.packaged(imported.module, record)
    return PackagedGraph(
        to_python(imported.module, plans, checks_of(options)), kernels, imported.constants, placement.device
    )
