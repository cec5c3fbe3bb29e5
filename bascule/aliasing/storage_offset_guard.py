"""Graphs that take elements of an input's memory by their places in its storage (`as_strided` and its like with an offset).

A compiled graph counts from the input's first element, and PyTorch guards on no input's place in its storage: where another call's input begins
elsewhere, the graph runs operator by operator.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch.fx import Graph, GraphModule, Node

from bascule.frontend.fx.node_calls import STORAGE_OFFSETS, arguments_of
from bascule.frontend.fx.stack_traces import location_of
from bascule.frontend.fx.storage_places import origin_of
from bascule.frontend.fx.storages import storage_of
from bascule.frontend.fx.trace_context import hint
from bascule.runtime.boxed import Boxed, boxed

from ..compiled.eager import operator_by_operator
from ..errors import FallbackWarning
from ..reporting.counters import count


def places_of(graph: Graph, *, exported: bool = False) -> dict[int, Node]:
    """The inputs of `graph`, by number, of which elements are taken so, also after writes, with the operator that does.

    Only by a line of the user's, unless the graph was `exported`: views that AOTAutograd makes again, of inputs that share memory, have no line,
    and guards see to their places. An exported program has no such inputs, and not all lines.
    """
    found: dict[int, Node] = {}
    for node in graph.nodes:
        if node.target not in STORAGE_OFFSETS or not (exported or node.meta.get("stack_trace")):
            continue
        given = arguments_of(node)
        memory = storage_of(origin_of(given[0]))
        if given[STORAGE_OFFSETS[node.target]] is not None and memory is not None:
            inputs = enumerate(graph.find_nodes(op="placeholder"))
            found |= {number: node for number, x in inputs if storage_of(x) == memory and number not in found}
    return found


def traced_place(x: Node) -> int | None:
    """The element of its storage at which an input began when it was traced."""
    return hint(x.meta["val"].storage_offset())


def at_places(call: Boxed, gm: GraphModule, places: Mapping[int, Node], name: str) -> Boxed:
    """`call`, the compiled `gm`, with the boxed calling convention. One warning tells of an input that begins elsewhere. What is returned is for
    no disk cache, which has no operators to run."""
    inputs = gm.graph.find_nodes(op="placeholder")
    traced = {number: traced_place(inputs[number]) for number in places}
    otherwise, told = operator_by_operator(gm), set[int]()

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        for number, offset in traced.items():
            now = args[number].storage_offset()
            if now != offset:
                if number not in told:
                    told.add(number)
                    _tell(name, inputs[number].name, offset, now, places[number])
                return otherwise(args)
        return call(args)

    return run


def _tell(name: str, given: str, offset: int | None, now: int, node: Node) -> None:
    count("graphs", "inputs elsewhere in their storage")
    where = location_of(node)
    at = f"{node.target} ({where})" if where else str(node.target)
    warnings.warn(
        f"{name}: '{given}' begins at element {now} of its storage, and began at {offset} when the graph was compiled. {at} counts from the "
        "start of the storage: such calls run operator by operator; without a storage offset it counts from the tensor's first element",
        FallbackWarning,
        stacklevel=2,
    )
