"""Random numbers in graphs that a backward runs again: those of `cond`, `switch`, `map` and `while_loop`.

PyTorch's gradient of these calls the graph once more, to have what it needs of it, and what is drawn then is not what the forward drew: the mask
of a dropout is another. Here such a graph is given a seed, an operand like others, which the gradient gets with them, and draws all from it.
The gradient of `scan` keeps what was drawn; so does that of `invoke_subgraph`, and of what is checkpointed, but in another such graph: there
they are inlined.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.errors import UnsupportedError
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from bascule.compat.operators.dispatch import TorchDispatchMode
from bascule.compat.operators.schemas import HigherOrderOperator
from bascule.compat.tensors.fake_tensors import FakeTensor, FakeTensorMode
from bascule.compat.tensors.pytree import tree_leaves, tree_map_only

from ..fx.graph_ends import inputs_of
from ..fx.operator_effects import draws
from ..fx.seed_scopes import STATE_BYTES, register_fake
from ..fx.stack_traces import location_of
from ..fx.trace_context import inside
from ..graph_split.split_point import operator_of

VALUE = "example_value"  # in the metadata of a node of Dynamo's graphs
SEEDS = (0, 1 << 62)

higher_order = torch.ops.higher_order


@dataclass(frozen=True)
class Seeded:
    """Where a higher-order operator takes a seed for its graphs. `graphs`: which of its arguments they are, or lists of them; `operands`: which
    the seed joins, as the last, of those that a graph is given first. `rows`: a seed for each row of the operands; `carried`: the last of the
    graphs returns the seed of the next call."""

    graphs: tuple[int, ...]
    operands: int
    rows: bool = False
    carried: bool = False


OPERATORS = {
    higher_order.cond: Seeded(graphs=(1, 2), operands=3),
    higher_order.map_impl: Seeded(graphs=(0,), operands=1, rows=True),
    higher_order.while_loop: Seeded(graphs=(0, 1), operands=2, carried=True),
}
if hasattr(higher_order, "switch"):  # as of PyTorch 2.14
    OPERATORS[higher_order.switch] = Seeded(graphs=(1,), operands=2)


def seed_bodies(gm: GraphModule) -> int:
    """Gives the graphs that `gm`, as Dynamo made it, calls by `OPERATORS` seeds, where they draw numbers. Returns how many such operators it
    changed."""
    nodes = [node for node in _modules_nodes(gm) if node.target in OPERATORS]
    if not nodes:
        return 0
    register_fake()
    # Dynamo captures under another mode than it hands a graph over with.
    modes = (
        x.fake_mode for x in tree_leaves(_values([node.all_input_nodes for node in nodes])) if isinstance(x, FakeTensor)
    )
    mode = next(modes, None)
    return 0 if mode is None else _seed_in(gm, mode)


def _modules_nodes(gm: GraphModule) -> Iterator[Node]:
    return (node for module in gm.modules() if isinstance(module, GraphModule) for node in module.graph.nodes)


def _seed_in(gm: GraphModule, mode: FakeTensorMode) -> int:
    """The innermost first: its seeds are numbers that the graph around it draws."""
    seeded = 0
    for name in dict.fromkeys(str(node.target) for node in gm.graph.find_nodes(op="get_attr")):
        if isinstance(body := getattr(gm, name, None), GraphModule):
            seeded += _seed_in(body, mode)
    for node in [node for node in gm.graph.nodes if node.target in OPERATORS]:
        where = OPERATORS[node.target]
        graphs = tree_leaves([node.args[number] for number in where.graphs])
        if any(_draws(getattr(gm, str(given.target)), mode) for given in graphs):
            _seed(gm, node, where, graphs, mode)
            seeded += 1
    gm.recompile()
    return seeded


def _seed(gm: GraphModule, node: Node, where: Seeded, graphs: Sequence[Node], mode: FakeTensorMode) -> None:
    """Gives `node` of `gm`, which calls `graphs`, a seed."""
    arguments = [*node.args]
    operands = arguments[where.operands]
    with gm.graph.inserting_before(node):
        rows = [_rows(gm.graph, operands[0])] if where.rows else []
        seed = _call(gm.graph, node, mode, torch.randint, *SEEDS, tuple(rows))
        arguments[where.operands] = type(operands)([*operands, seed])
        seeded = {}
        for given in graphs:
            body = _Body(getattr(gm, str(given.target)), len(operands), node, mode)
            name = f"{given.target}_seeded"
            gm.add_submodule(name, body.seeded(carried=where.carried and given is graphs[-1]))
            seeded[given] = gm.graph.get_attr(name)
    for number in where.graphs:
        arguments[number] = map_arg(arguments[number], seeded.__getitem__)
    node.args = tuple(arguments)
    if where.carried:
        node.meta[VALUE] = (*node.meta[VALUE], seed.meta[VALUE])
    for given in seeded:
        if not given.users:
            gm.graph.erase_node(given)


def _rows(graph: Graph, x: Node) -> Any:
    size = x.meta[VALUE].shape[0]
    if isinstance(size, int):
        return size
    made = graph.call_method("size", (x, 0))
    made.meta[VALUE] = size
    return made


class _Body:
    """A graph that `node` calls, to be given a seed as its input number `place`."""

    def __init__(self, body: GraphModule, place: int, node: Node, mode: FakeTensorMode):
        self.body, self.place, self.node, self.mode = body, place, node, mode
        _inline_regions(body, mode)
        self.drawing = _draws(body, mode)
        self.graph = Graph()

    def seeded(self, *, carried: bool) -> GraphModule:
        """A copy in which each node that draws goes by a stream of the seed; it returns the next call's seed too if that is `carried`."""
        known: dict[Node, Node] = {}
        inputs = inputs_of(self.body.graph)
        for x in inputs[: self.place]:
            known[x] = self.graph.node_copy(x)
        seed = self.graph.placeholder("seed")
        with self.mode:
            seed.meta[VALUE] = torch.empty((), dtype=torch.int64)
        for node in self.body.graph.nodes:
            if node not in known and node.op != "output":
                known[node] = self._drawn(node, known, seed) if node in self.drawing else self._copied(node, known)
        (results,) = map_arg(self.body.graph.output_node().args, known.__getitem__)
        if carried:
            results = (*results, _call(self.graph, self.node, self.mode, torch.add, seed, 1))
        self.graph.output(results)
        made = GraphModule(self.body, self.graph)
        made.meta.update(self.body.meta)
        return made

    def _copied(self, node: Node, known: dict[Node, Node]) -> Node:
        return self.graph.node_copy(node, known.__getitem__)

    def _drawn(self, node: Node, known: dict[Node, Node], seed: Node) -> Node:
        if len(self.drawing[node]) > 1 and _is_inlined(node.target):
            told = "a graph that its gradient runs again draws more than once inside it"
            hint = (
                "draw outside of it, or let 'random' be 'eager': then the gradient draws other numbers, as eager's does"
            )
            raise UnsupportedError(told, operator=operator_of(node), location=location_of(node), hint=hint)
        devices, number = sorted(set(self.drawing[node])), [*self.drawing].index(node)
        begin, end = torch.ops.bascule.begin_draws.default, torch.ops.bascule.end_draws.default
        states = _call(self.graph, node, self.mode, begin, seed, number, devices)
        made = self._copied(node, known)
        _call(self.graph, node, self.mode, end, states, devices)
        return made


def _is_inlined(target: Any) -> bool:
    """Whether `target` is a higher-order operator that is traced as what its graph does: what of that nobody reads is dropped, draws too."""
    return isinstance(target, HigherOrderOperator) and not target.py_kernels


# Operators that are a graph in place of the lines that made it -> their first operand.
REGIONS = {higher_order.tag_activation_checkpoint: 1, higher_order.invoke_subgraph: 2}


def _inline_regions(body: GraphModule, mode: FakeTensorMode) -> None:
    """Inlines the regions that draw, of a graph that runs again: the gradient of one would run it again too (torch 2.11)."""
    drawing = _draws(body, mode)
    for node in [node for node in drawing if node.target in REGIONS]:
        inner = getattr(body, str(node.args[0].target))
        _inline_regions(inner, mode)
        known = dict(zip(inputs_of(inner.graph), node.args[REGIONS[node.target] :], strict=True))
        with body.graph.inserting_before(node):
            for name, module in inner.named_children():
                body.add_submodule(f"{node.name}_{name}", module)
            for x in inner.graph.nodes:
                if x.op not in ("placeholder", "output"):
                    known[x] = body.graph.node_copy(x, known.__getitem__)
                    if x.op == "get_attr":
                        known[x].target = f"{node.name}_{x.target}"
        (results,) = map_arg(inner.graph.output_node().args, known.__getitem__)
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            body.graph.erase_node(user)
        body.graph.erase_node(node)


def _call(graph: Graph, like: Node, mode: FakeTensorMode, target: Callable[..., Any], *args: Any) -> Node:
    """A call for the line of the user's that `like` stands for."""
    made = graph.call_function(target, args)
    with inside(mode):
        value = target(*_values(args))
    made.meta = {**{key: x for key, x in like.meta.items() if key in ("stack_trace", "nn_module_stack")}, VALUE: value}
    return made


def _values(args: Any) -> Any:
    return tree_map_only(Node, lambda node: node.meta.get(VALUE), args)


def _draws(body: GraphModule, mode: FakeTensorMode) -> dict[Node, list[str]]:
    """The nodes of `body` that draw random numbers, each with the devices on which it does, once a draw."""
    run = _Drawing(body, mode)
    run.run(*(node.meta.get(VALUE) for node in inputs_of(body.graph)))
    return run.found


class _Drawing(Interpreter):
    """Runs a graph on fake tensors of its own, and notes operators that draw. Higher-order operators are looked into."""

    def __init__(self, body: GraphModule, mode: FakeTensorMode):
        super().__init__(body)
        self.mode, self.found = mode, dict[Node, list[str]]()

    def run(self, *args: Any) -> Any:
        with torch.no_grad(), self.mode:
            return super().run(*tree_map_only(torch.Tensor, torch.clone, args), enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        if isinstance(n.target, HigherOrderOperator):
            bodies = [self.fetch_attr(x.target) for x in n.all_input_nodes if x.op == "get_attr"]
            found = [device for body in bodies for devices in _draws(body, self.mode).values() for device in devices]
            made = tree_map_only(torch.Tensor, torch.clone, n.meta.get(VALUE))  # of `print` there is none
        else:
            with _Noting() as noting:
                made = super().run_node(n)
            found = noting.found
        if found:
            self.found[n] = found
        return made


class _Noting(TorchDispatchMode):
    """Notes the devices of operators that draw."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if draws(func):
            tensors = [x for x in tree_leaves([made, args]) if isinstance(x, torch.Tensor)]
            self.found += list(dict.fromkeys(str(x.device) for x in tensors if x.device.type in STATE_BYTES))
        return made
