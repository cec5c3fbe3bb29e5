"""Regions of Dynamo's graph that are equal up to their operands.

A period of the nodes' signatures (what is called, with what constants, for what kind of result) gives candidates; the arguments decide. In
the order of Dynamo's graph a layer is one run of nodes, so regions are runs too.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.fx.node import map_aggregate

from bascule.compat.graphs.dynamo import log_api_usage_once
from bascule.compat.operators.autograd_state import set_grad_enabled
from bascule.compat.operators.schemas import HigherOrderOperator
from bascule.compat.tensors.fake_tensors import FakeTensor

from ..fx.storages import storage

SHORTEST = 8  # nodes of a region
SAVED = 48  # nodes that are not traced, from which on it pays: a trace of its own costs a region about as much as that
PERIODS, STARTS = 16, 8  # tried of a graph, and of a period
TRIES = 4  # runs of regions of a graph
_TREATED = (
    "recompute",
    "ac_graph_id",
    "custom",
)  # in the metadata of a node: what becomes of it goes by more than its call

Use = tuple[Node, Node | None]


@dataclass(frozen=True)
class Region:
    """Nodes in order, what they read from outside, in the order of first use, and what is read of them outside.

    `uses`: each operand, with the node that reads it where it is an operand of its own for that node: gradients of one tensor are added in the
    order in which they are made, so those of a tensor that others read too are not added up in here.
    """

    nodes: tuple[Node, ...]
    uses: tuple[Use, ...]
    results: tuple[Node, ...]

    @property
    def operands(self) -> list[Node]:
        return [x for x, _ in self.uses]


def repeated(graph: Graph) -> list[list[Region]]:
    """Groups of two regions or more that are equal but for their operands, in the order of the graph. No node is in two."""
    nodes = [*graph.nodes]
    told = [_signature(node) for node in nodes]
    sizes = _size_inputs(nodes)
    _hide_states(nodes, told)
    groups: list[list[Region]] = []
    for _ in range(TRIES):
        found = _best(nodes, told, sizes)
        if found is None:
            break
        run, group = found
        groups += group
        for at in range(*run):
            told[at] = None
    return groups


def _best(
    nodes: Sequence[Node], told: Sequence[Any], sizes: dict[str, Node]
) -> tuple[tuple[int, int], list[list[Region]]] | None:
    """The groups of the run that saves most, and where it is; without groups, if its nodes do not make any."""
    runs = [
        (length - length % period, (start, start + length + period), period) for start, length, period in _runs(told)
    ]
    saved, run, period = max(runs, default=(0, (0, 0), 0), key=lambda each: each[0])
    return (run, _cut(nodes, run, period, sizes)) if saved >= SAVED else None


def _runs(told: Sequence[Any]) -> Iterator[tuple[int, int, int]]:
    """Start, length and period of each run of nodes that are like those a period later."""
    last: dict[Any, int] = {}
    distances: Counter[int] = Counter()
    for at, signature in enumerate(told):
        if signature is not None:
            if signature in last:
                distances[at - last[signature]] += 1
            last[signature] = at
    for period, _ in [each for each in distances.most_common() if each[0] >= SHORTEST][:PERIODS]:
        alike = (told[at] is not None and told[at] == told[at + period] for at in range(len(told) - period))
        start = 0
        for same, members in groupby(alike):
            length = sum(1 for _ in members)
            if same and length >= period:
                yield start, length, period
            start += length


def _cut(nodes: Sequence[Node], run: tuple[int, int], period: int, sizes: dict[str, Node]) -> list[list[Region]]:
    """The regions of a run, begun where the fewest values cross from one to the next, and where they are equal in their arguments too."""
    first, end = run
    crossing = _crossing(nodes, first)
    best: list[list[Region]] = []
    for start in sorted(range(first, first + period), key=lambda start: (crossing[start + period], start))[:STARTS]:
        regions = [_region(nodes[at : at + period], sizes) for at in range(start, end - period + 1, period)]
        groups = [[*alike] for _, alike in groupby(regions, _likeness)]
        kept = [group for group in groups if len(group) > 1 and all(map(_is_closed, group))]
        if _saved(kept) > _saved(best):
            best = kept
    return best


def _crossing(nodes: Sequence[Node], first: int) -> list[int]:
    """For each place, how many of the nodes from `first` up to there are read there or later."""
    place = {node: at for at, node in enumerate(nodes)}
    changes = [0] * (len(nodes) + 1)
    for at in range(first, len(nodes)):
        last = max((place[user] for user in nodes[at].users), default=at)
        changes[at + 1] += 1
        changes[last + 1] -= 1
    return [*accumulate(changes)]


def _saved(groups: Sequence[Sequence[Region]]) -> int:
    return sum(len(group[0].nodes) * (len(group) - 1) for group in groups)


def _region(nodes: Sequence[Node], sizes: dict[str, Node]) -> Region:
    """`sizes`: inputs that are symbols. Those of a region's operands are operands too: AOTAutograd takes a size from there first."""
    inside = set(nodes)
    read = [(x, node) for node in nodes for x in node.all_input_nodes if x not in inside]
    apart = {x: _is_differentiable(x) and any(user not in inside for user in x.users) for x, _ in read}
    symbols = sorted({str(symbol) for x in apart for symbol in free_symbols(x.meta.get("example_value"))})
    given = [(sizes[symbol], None) for symbol in symbols if symbol in sizes]
    uses = dict.fromkeys([*given, *((x, node if apart[x] else None) for x, node in read)])
    results = [node for node in nodes if any(user not in inside for user in node.users)]
    return Region(tuple(nodes), tuple(uses), tuple(results))


def _size_inputs(nodes: Sequence[Node]) -> dict[str, Node]:
    values = {node: node.meta.get("example_value") for node in nodes if node.op == "placeholder"}
    return {str(value.node.expr): node for node, value in values.items() if isinstance(value, torch.SymInt)}


def _is_differentiable(node: Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.requires_grad


def wiring(region: Region, made: dict[Any, Any]) -> Iterator[Callable[[Node], Any]]:
    """For each node of a region, what its arguments are: of `made`, which has nodes of the region and its `uses`."""

    def argument(user: Node, x: Node) -> Any:
        return next(made[key] for key in (x, (x, user), (x, None)) if key in made)

    return (partial(argument, node) for node in region.nodes)


def _likeness(region: Region) -> Any:
    """Equal for regions that are equal but for their operands: the wiring, the kinds of operands, which results are read."""
    numbers = {key: at for at, key in enumerate((*region.nodes, *region.uses))}
    wires = tuple(
        tuple(map(of, node.all_input_nodes)) for node, of in zip(region.nodes, wiring(region, numbers), strict=True)
    )
    return (
        wires,
        tuple(_kind(x.meta.get("example_value")) for x in region.operands),
        tuple(map(numbers.get, region.results)),
    )


def _is_closed(region: Region) -> bool:
    """Whether its operands and results are what an operator takes and gives: tensors (and sizes, as operands); each result has memory of its
    own, all of it."""
    given, made = ([x.meta.get("example_value") for x in part] for part in (region.operands, region.results))
    places = [storage(x) for x in made]
    return (
        bool(made)
        and all(isinstance(x, torch.SymInt) or is_plain(x) for x in given)
        and all(is_plain(x) and _is_whole(x) and not x._is_view() for x in made)
        and len({*places}) == len(places)
        and {*places}.isdisjoint(map(storage, given))
    )


def is_plain(x: Any) -> bool:
    """Whether a fake tensor has memory, and its elements in it as they are."""
    return (
        type(x) in (FakeTensor, torch.nn.Parameter)
        and x.layout is torch.strided
        and not (x.is_conj() or x.is_neg() or x.is_quantized)
    )


def _is_whole(x: torch.Tensor) -> bool:
    number = x.numel() * x.element_size()
    return str(x.storage_offset()) == "0" and str(number) == str(x.untyped_storage().nbytes())


def _signature(node: Node) -> Any:
    """Equal for calls that are equal but for the nodes among their arguments; None for what is in no region."""
    if node.op not in ("call_function", "call_method") or isinstance(node.target, HigherOrderOperator):
        return None
    kind = _kind(node.meta.get("example_value"))
    if kind is None or any(node.meta.get(key) for key in _TREATED) or "unbacked_bindings" in node.meta:
        return None
    if any(x.op == "get_attr" for x in node.all_input_nodes):
        return None
    constants = map_aggregate((node.args, node.kwargs), lambda x: "%" if isinstance(x, Node) else _constant(x))
    return node.op, node.target, repr(constants), kind


def _constant(x: Any) -> Any:
    return (type(x).__name__, repr(x))


def _kind(value: Any) -> Any:
    """Of a tensor, a number or several of them, all that a trace can depend on; None for other values."""
    match value:
        case torch.Tensor():
            if value.layout is not torch.strided:
                return None
            sizes = [str(n) for n in (*value.shape, *value.stride(), value.storage_offset())]
            flags = (value.requires_grad, value.is_conj(), value.is_neg(), value.is_inference())
            return type(value) is torch.nn.Parameter, value.dtype, str(value.device), value.dim(), *sizes, *flags
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return type(value).__name__, str(value.node.expr)
        case bool() | int() | float() | torch.Size():
            return type(value).__name__, repr(value)
        case tuple() | list():
            kinds = tuple(map(_kind, value))
            return None if None in kinds else (type(value).__name__, kinds)
    return None


def _hide_states(nodes: Sequence[Node], told: list[Any]) -> None:
    """Hides calls in a state that the graph itself sets (autocast, no gradients, a function transform): they are in no region.

    A call that neither takes nor gives a tensor or a number sets a state. It ends with one that is given it, or sets what held before.
    """
    states: set[Any] = set()
    for at, node in enumerate(nodes):
        if _sets_state(node):
            told[at] = None
            if node.target is set_grad_enabled:
                (states.discard if node.args == (torch.is_grad_enabled(),) else states.add)(node.target)
            elif states.isdisjoint(node.all_input_nodes):
                states.add(node)
            else:
                states.difference_update(node.all_input_nodes)
        elif states:
            told[at] = None


def _sets_state(node: Node) -> bool:
    """Of a call that has nothing but its effect. One that PyTorch's modules make has none on a trace."""
    values = [x.meta.get("example_value") for x in (node, *node.all_input_nodes)]
    return node.op == "call_function" and values.count(None) == len(values) and node.target is not log_api_usage_once
