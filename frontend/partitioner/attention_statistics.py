"""Attention by hand in a training step: the backward has its probabilities from scores that it computes again and from two numbers a row.

Autograd keeps the probabilities, a number for each query and key. The forward saves the maximum of a row of scores and its sum of exponentials
instead, and the backward computes exp(score - maximum) / sum where it needs it, the scores from queries and keys. Of a row the gradient of the
scores is p * (g - sum(p * g)). Where the probabilities weigh values and nothing else, the sum is that of the result times its gradient
(Euler: the result is homogeneous in the probabilities), which needs no score. So neither direction has a tensor of scores, where
`fuse-attention` and `fuse-products` make the kernels. Dao, Fu, Ermon, Rudra and Re, "FlashAttention".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from bascule.compat.operators.schemas import OpOverload

from ..fx.node_calls import call_like
from ..fx.storages import is_view
from ..fx_passes.seed_dropout import CHECKPOINTED

aten = torch.ops.aten

NARROW = (torch.float16, torch.bfloat16)
COPIES = (aten._to_copy.default, aten.detach.default, aten.clone.default, aten.view.default, aten.expand.default)
CREATIONS = (
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.full.default,
    aten.scalar_tensor.default,
)
# Of their first operand homogeneous, element by element, whatever the others are.
SCALINGS = (aten.native_dropout_backward.default, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar)
LEAST, DEEPEST = 16, 256  # elements of a head: what the kernels take


def save_attention_statistics(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Saves the maximum and the sum of exponentials of rows of scores, from which the backward of an attention by hand computes the
    probabilities again. Of a joint graph on `devices`, before it is split; returns how many attentions there were."""
    found = 0
    for node in graph.find_nodes(op="call_function", target=aten._softmax_backward_data.default):
        if node.meta["val"].device.type in devices and (attention := _Attention.of(node)) is not None:
            attention.rewrite(graph)
            found += 1
    return found


@dataclass(frozen=True)
class _Softmax:
    """`probabilities` = exp(scores - max) / sum of those, along the last dim."""

    scores: Node
    probabilities: Node

    @staticmethod
    def of(node: Node) -> "_Softmax | None":
        while node.target in (aten.detach.default, aten._to_copy.default):
            node = node.args[0]
        if node.target is not aten.div.Tensor or not all(isinstance(arg, Node) for arg in node.args):
            return None
        power, total = node.args
        if power.target is not aten.exp.default or power.args[0].target is not aten.sub.Tensor:
            return None
        scores, largest = power.args[0].args[:2]
        last = len(node.meta["val"].shape) - 1
        reduced = (total.target, largest.target) == (aten.sum.dim_IntList, aten.amax.default)
        if not reduced or (total.args[0], largest.args[0]) != (power, scores):
            return None
        if any([dim % (last + 1) for dim in each.args[1]] != [last] for each in (total, largest)):
            return None
        return _Softmax(scores, node)


@dataclass(frozen=True)
class _Attention:
    """`gradient` is that of the scores of `softmax`, which are computed from `scored`; its probabilities, by the nodes `weights`, weigh values
    in the product `result`, whose gradient is `seed`; `again`: the products of the backward that read one of `weights`."""

    gradient: Node
    softmax: _Softmax
    scored: list[Node]
    weights: list[Node]
    result: Node
    seed: Node
    again: list[Node]

    @staticmethod
    def of(gradient: Node) -> "_Attention | None":
        given, out, dim, *_ = gradient.args
        softmax = _Softmax.of(out)
        sizes = gradient.meta["val"].shape
        if softmax is None or dim % len(sizes) != len(sizes) - 1 or any(key in gradient.meta for key in CHECKPOINTED):
            return None
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            return None
        scored = _made_of_product(softmax.scores)
        weights = list(_weights(softmax.probabilities))
        readers = {user for node in weights for user in node.users}.difference(weights, [gradient])
        products = [user for user in readers if user.target is aten.bmm.default]
        results = [
            user for user in products if user.args[0] in weights and _sizes(user.args[0])[-2:] == _sizes(out)[-2:]
        ]
        if scored is None or len(products) < len(readers):
            return None
        for result in results:
            seed = _seed(given, result)
            others = [user for user in products if user is not result]
            if seed is not None and all(seed in user.args for user in others) and _fits(result, scored, sizes):
                return _Attention(gradient, softmax, scored, weights, result, seed, others)
        return None

    def rewrite(self, graph: Graph) -> None:
        scores, most, total = self._statistics(graph)
        first = min([self.gradient, *self.again])  # in the order of the graph
        with graph.inserting_before(first):
            make = _Maker(graph, self.gradient)
            power = make(aten.exp.default, make(aten.sub.Tensor, scores, most))
            again = make(aten.mul.Tensor, power, make(aten.reciprocal.default, total))
            for node in (again, power, power.args[0]):
                _again(node)
        self._weigh_again(graph, first, again)
        given, _, _, dtype = self.gradient.args
        with graph.inserting_before(self.gradient):
            wide = again.meta["val"].dtype
            seed, result = (make(aten._to_copy.default, x, dtype=wide) for x in (self.seed, self.result))
            dot = make(aten.sum.dim_IntList, make(aten.mul.Tensor, seed, result), [-1], True)
            flat = make.view(make.cast(given, wide), _sizes(again))
            change = make(aten.mul.Tensor, again, make(aten.sub.Tensor, flat, dot))
            change = make.view(make.cast(change, dtype), _sizes(self.gradient))
        self.gradient.replace_all_uses_with(change)
        graph.erase_node(self.gradient)

    def _statistics(self, graph: Graph) -> tuple[Node, Node, Node]:
        """The scores, and of each row their maximum and the sum of exponentials, of the sizes of the product: a batch, rows and keys."""
        old = self.softmax.probabilities
        sizes = [*_sizes(self.result)[:2], _sizes(old)[-1]]
        with graph.inserting_before(old):
            make = _Maker(graph, old)
            scores = make.view(self.softmax.scores, sizes)
            most = make(aten.amax.default, scores, [-1], True)
            power = make(aten.exp.default, make(aten.sub.Tensor, scores, most))
            total = make(aten.sum.dim_IntList, power, [-1], True)
            new = make.view(make(aten.div.Tensor, power, total), _sizes(old))
        old.replace_all_uses_with(new)
        self.weights[0] = new
        for node in (most, total):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        for node in (*self.scored, scores, *_of_numbers(self.scored)):
            _again(node)
        return scores, most, total

    def _weigh_again(self, graph: Graph, at: Node, again: Node) -> None:
        """Has the backward read weights that are computed from probabilities `again`."""
        first, *rest = self.weights
        with graph.inserting_before(at):
            copies = {first: _again(_Maker(graph, first).view(again, _sizes(first)))}
            for node in rest:
                arguments = [copies.get(arg, arg) if isinstance(arg, Node) else arg for arg in node.args]
                copies[node] = _again(call_like(graph, node, node.target, *arguments, **node.kwargs))
        for user in self.again:
            user.args = tuple(copies.get(arg, arg) for arg in user.args)


@dataclass(frozen=True)
class _Maker:
    """Makes calls that stand for the line of `like`."""

    graph: Graph
    like: Node

    def __call__(self, target: OpOverload, *args: Any, **kwargs: Any) -> Node:
        made = call_like(self.graph, self.like, target, *args, **kwargs)
        made.meta.pop("recompute", None)
        return made

    def view(self, node: Node, sizes: Sequence[int]) -> Node:
        return node if _sizes(node) == [*sizes] else self(aten.view.default, node, [*sizes])

    def cast(self, node: Node, dtype: torch.dtype) -> Node:
        return node if node.meta["val"].dtype == dtype else self(aten._to_copy.default, node, dtype=dtype)


def _again(node: Node) -> Node:
    node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    return node


def _weights(probabilities: Node) -> Iterator[Node]:
    """The probabilities and what is proportional to them, element by element, in order."""
    found = {probabilities}
    yield probabilities
    for node in _after(probabilities):
        source = node.args[0] if node.args else None
        same = node.target in COPIES or is_view(node)
        if source in found and (same or node.target in SCALINGS) and not found.intersection(node.args[1:]):
            found.add(node)
            yield node


def _after(node: Node) -> Iterator[Node]:
    """The nodes that follow."""
    while (node := node.next).op != "output":
        yield node


def _made_of_product(scores: Node) -> list[Node] | None:
    """The nodes by which `scores` are computed, element by element, from a product of 16-bit numbers, that included; None where there is
    anything else in between."""
    found = dict[Node, bool]()  # whether it depends on a product

    def depends(node: Node) -> bool:
        if node not in found:
            found[node] = False
            if node.target is aten.bmm.default:
                found[node] = node.meta["val"].dtype in NARROW
            elif _is_pointwise(node):
                found[node] = any([depends(operand) for operand in node.all_input_nodes])
        return found[node]

    return [node for node in found if found[node]] if depends(scores) else None


def _of_numbers(nodes: Sequence[Node]) -> list[Node]:
    """What `nodes` read that is computed of numbers alone, as masks by places are: it need not be in memory."""
    found, todo = dict[Node, bool](), [operand for node in nodes for operand in node.all_input_nodes]
    while todo:
        node = todo[-1]
        waiting = [operand for operand in node.all_input_nodes if operand not in found]
        known = node in found or not _is_of_numbers(node)
        if known or not waiting:
            found[todo.pop()] = found.get(node, False) if known else all(found[x] for x in node.all_input_nodes)
        else:
            todo += waiting
    return [node for node, numbers in found.items() if numbers]


def _is_of_numbers(node: Node) -> bool:
    """Whether `node` is of numbers where its operands are."""
    made = node.op == "call_function" and node.target in CREATIONS
    return made or (bool(node.all_input_nodes) and _is_pointwise(node))


def _is_pointwise(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    seeded = torch.Tag.nondeterministic_seeded in node.target.tags
    return node.target in COPIES or is_view(node) or (torch.Tag.pointwise in node.target.tags and not seeded)


def _seed(given: Node, result: Node) -> Node | None:
    """The gradient of `result`: of the one product that the gradient `given` of the probabilities is computed from, the factor beside the
    values."""
    products = [node for node in _made_of_product(given) or () if node.target is aten.bmm.default]
    if len(products) != 1:
        return None
    seed, values = products[0].args
    turned = values.target in (aten.transpose.int, aten.permute.default) and values.args[0] is result.args[1]
    return seed if turned and _sizes(seed) == _sizes(result) else None


def _fits(result: Node, scored: Sequence[Node], sizes: Sequence[int]) -> bool:
    """Whether the kernels take what is summed, and rows and columns are those of the products."""
    deep = [_sizes(node.args[0])[-1] for node in scored if node.target is aten.bmm.default] + [_sizes(result)[-1]]
    batch, rows, _ = _sizes(result)
    return all(LEAST <= n <= DEEPEST for n in deep) and [batch, rows] == [prod(sizes[:-2]), sizes[-2]]


def _sizes(node: Node) -> list[int]:
    return [*node.meta["val"].shape]
