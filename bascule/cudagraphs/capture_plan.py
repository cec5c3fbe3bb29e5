"""Whether a compiled graph can be recorded as a CUDA graph, and which of its inputs stay where they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.frontend.fx.graph_ends import VISIBLE, inputs_of, outputs_of
from bascule.frontend.fx.node_calls import written_by
from bascule.frontend.fx.stack_traces import location_of
from bascule.frontend.fx.storages import storage, storage_of
from bascule.runtime.cudagraphs.recording import Direction, Input, Recording

from ..compat.operators.dropout_seeds import READING, seeds_of
from ..compat.operators.schemas import OpOverload
from .unsafe_operators import on_gpu, tensors

MARK = "bascule_input"  # in a placeholder's `meta`
GRADIENT = "bascule_gradient"  # in that of an output of a backward


@dataclass(frozen=True)
class Mark:
    """Facts about an input of a whole graph, for its subgraphs too: the user's name of it, and whether it stays at its address."""

    name: str
    static: bool


@dataclass(frozen=True)
class Refusal:
    """Why a graph is not recorded, at which line of the user's, and what to change."""

    reason: str
    location: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.reason} ({self.location})" if self.location else self.reason
        return f"{text}; {self.hint}" if self.hint else text


def mark(gm: GraphModule, static: Iterator[bool], names: list[str]) -> None:
    """Notes on the placeholders of `gm` which stay in their places, and what the user calls them; `names` may be fewer."""
    for number, (node, stays) in enumerate(zip(inputs_of(gm.graph), static)):
        node.meta[MARK] = Mark(names[number] if number < len(names) else node.name, stays)


def mark_gradients(gm: GraphModule, names: Sequence[str]) -> None:
    """Notes on the outputs of a backward what the user calls the inputs, all of which are in `names`, whose gradients they are."""
    outputs = outputs_of(gm.graph)
    if len(outputs) == len(names):
        for node, name in zip(outputs, names):
            if isinstance(node, Node):
                node.meta.setdefault(GRADIENT, name)


def devices_of(graph: Graph) -> dict[torch.device, Node]:
    """The GPUs that a graph has tensors on, each with the first node that does."""
    found: dict[torch.device, Node] = {}
    for node in graph.nodes:
        for x in tensors(node.meta.get("val")):
            if on_gpu(x):
                index = torch.cuda.current_device() if x.device.index is None else x.device.index
                found.setdefault(torch.device("cuda", index), node)
    return found


def recording_of(
    gm: GraphModule, name: str, direction: Direction, constants: tuple[torch.Tensor, ...] = ()
) -> Recording | Refusal | None:
    """How the compiled `gm`, whose placeholders may be marked, is recorded; why not; or None where nothing runs on a GPU."""
    devices = devices_of(gm.graph)
    if not devices:
        return None
    if len(devices) > 1:
        (first, a), (second, b) = list(devices.items())[:2]
        return Refusal(
            f"'{a.name}' is on '{first}' and '{b.name}' on '{second}'", location_of(b), "keep a graph on one device"
        )
    inputs, outputs = inputs_of(gm.graph), outputs_of(gm.graph)
    refusal = next(filter(None, [*map(_refused_input, inputs), *map(_refused_output, outputs)]), None)
    if refusal is not None:
        return refusal
    writers = _writers(gm.graph)
    for node, writer in writers.items():
        if not all(map(on_gpu, tensors(node.meta.get("val")))):  # a replay writes to a copy of it
            return Refusal(f"it writes to '{_called(node)}', a tensor on the CPU", location_of(writer))
        if not _stays(node):
            return Refusal(
                f"it writes to '{_called(node)}', which is neither a parameter nor a buffer",
                location_of(writer),
                "make it a buffer of the module, or return the new value in place of writing it",
            )
    values = [node.meta.get("val") for node in inputs]
    numbered = list(enumerate(zip(inputs, values)))
    copied = {storage(x): n for n, (node, x) in numbered if isinstance(x, torch.Tensor) and not _stays(node)}
    visible = gm.graph.output_node().meta.get(
        VISIBLE
    )  # what is saved for the backward is left the copy, which its replay finds in place
    lie_in = [(n, copied.get(storage_of(x)) if isinstance(x, Node) else None) for n, x in enumerate(outputs[:visible])]
    return Recording(
        name=name,
        device=next(iter(devices)).index,
        direction=direction,
        inputs=tuple(
            Input(_called(node), _trace(node), _trace(writers[node]) if node in writers else None, _place(node))
            for node in inputs
        ),
        outputs=tuple(_trace(x) if isinstance(x, Node) else None for x in outputs),
        static=tuple(n for n, (node, _) in numbered if _stays(node) and not _is_seed(node)),
        written=tuple(n for n, (node, _) in numbered if node in writers),
        host=tuple(n for n, (node, x) in numbered if isinstance(x, torch.Tensor) and (not on_gpu(x) or _is_seed(node))),
        sized=tuple(n for n, (_, x) in numbered if isinstance(x, torch.Tensor) and _is_dynamic(x)),
        integers=tuple(n for n, (_, x) in numbered if isinstance(x, int | torch.SymInt)),
        views=tuple((n, number) for n, number in lie_in if number is not None),
        constants=constants,
        gradients=tuple(x.meta.get(GRADIENT) if isinstance(x, Node) else None for x in outputs),
    )


def _refused_input(node: Node) -> Refusal | None:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor | int | torch.SymInt):
        return None
    kind = "a number" if isinstance(value, float | torch.SymFloat) else f"of type {type(value).__name__}"
    hint = "give it as a tensor on the GPU"
    return Refusal(f"'{_called(node)}' is {kind}, which a recording would keep", _place(node), hint)


def _refused_output(output: Any) -> Refusal | None:
    value = output.meta.get("val") if isinstance(output, Node) else output
    if isinstance(value, torch.Tensor) and not on_gpu(value):
        text = f"it returns '{_called(output)}', a tensor on the CPU"
        return Refusal(text, _place(output), "keep it on the GPU, or compute with it outside of what is compiled")
    if not isinstance(value, torch.Tensor | int | torch.SymInt | None):
        place = _place(output) if isinstance(output, Node) else None
        return Refusal(f"it returns {output}, which is neither a tensor nor an integer", place)
    return None


def _writers(graph: Graph) -> dict[Node, Node]:
    """Placeholder -> the first operator that writes to it."""
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            for x in written_by(node):
                if x.op == "placeholder":
                    found.setdefault(x, node)
    return found


def _is_dynamic(x: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in x.shape)


def _stays(node: Node) -> bool:
    return MARK in node.meta and node.meta[MARK].static and isinstance(node.meta.get("val"), torch.Tensor)


def _is_seed(node: Node) -> bool:
    """Whether an input is what a forward drew for a dropout, which is on the host if that was not recorded, whatever the trace says."""
    readers = [user for user in node.users if str(user.target) in READING]
    return any(user.args[place] is node for user in readers for place in seeds_of(user.target))


def _called(node: Node) -> str:
    return node.meta[MARK].name if MARK in node.meta else node.name


def _trace(node: Node) -> str | None:
    return node.meta.get("stack_trace")


def _place(node: Node) -> str | None:
    """The user's line of a node; of an input, that of its first use."""
    return next(filter(None, map(location_of, (node, *node.users))), None)
