"""Attention by hand in a training step: the backward has its probabilities from scores that it computes again and from two numbers a row.

Autograd keeps the probabilities, a number for each query and key. The forward saves the maximum of a row of scores and its sum of exponentials
instead, and the backward computes exp(score - maximum) / sum where it needs it, as 2 ** ((score - maximum) * log2(e) - log2(sum)), the scores
from queries and keys. Of a row the gradient of the scores is p * (g - sum(p * g)). Where the probabilities weigh values and nothing else, the
sum is that of the result times its gradient (Euler: the result is homogeneous in the probabilities), which needs no score. So neither direction
has a tensor of scores, where `fuse-attention` and `fuse-products` make the kernels. Dao, Fu, Ermon, Rudra and Re, "FlashAttention".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from bascule.compat.operators.schemas import OpOverload

from ..fx.fused_products import are_alike, mark, sizes_of
from ..fx.node_calls import call_like
from ..fx.size_nodes import SizeNodes
from ..fx.trace_context import known
from ..fx_passes.attention_structure import (
    Softmax,
    fits,
    made_of_numbers,
    made_of_product,
    reads_of,
    sums_batch,
    weights_of,
)
from ..fx_passes.seed_dropout import CHECKPOINTED

aten = torch.ops.aten

LOG2_E = 1.4426950408889634


def save_attention_statistics(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Saves the maximum and the sum of exponentials of rows of scores, from which the backward of an attention by hand computes the
    probabilities again. Of a joint graph on `devices`, before it is split; returns how many attentions there were."""
    found, sizes = 0, SizeNodes(graph)
    for node in graph.find_nodes(op="call_function", target=aten._softmax_backward_data.default):
        if node.meta["val"].device.type in devices and (attention := _Attention.of(node)) is not None:
            attention.rewrite(graph, sizes)
            found += 1
    return found


@dataclass(frozen=True)
class _Attention:
    """`gradient` is that of the scores of `softmax`, which are computed from `scored`; its probabilities, by the nodes `weights`, weigh values
    in the product `result`. `given` is the product of the gradient of that, its first factor, and of the values; `again`: the products of
    the backward that read one of `weights`."""

    gradient: Node
    softmax: Softmax
    scored: list[Node]
    weights: list[Node]
    result: Node
    given: Node
    again: list[Node]

    @staticmethod
    def of(gradient: Node) -> "_Attention | None":
        given, out, dim, *_ = gradient.args
        softmax = Softmax.of(out)
        sizes = gradient.meta["val"].shape
        if softmax is None or dim % len(sizes) != len(sizes) - 1 or any(key in gradient.meta for key in CHECKPOINTED):
            return None
        if not all(known(size > 0) for size in sizes):
            return None
        scored = made_of_product(softmax.scores)
        weights = list(weights_of(softmax.probabilities))
        readers = {user for node in weights for user in node.users}.difference(weights, [gradient])
        products = [user for user in readers if user.target is aten.bmm.default]
        results = [
            user
            for user in products
            if user.args[0] in weights and are_alike(sizes_of(user.args[0])[-2:], sizes_of(out)[-2:])
        ]
        if scored is None or len(products) < len(readers):
            return None
        for result in results:
            product = _given(given, result)
            others = [user for user in products if user is not result]
            if product is None or not all(product.args[0] in user.args for user in others):
                continue
            if fits(result, scored, sizes) and all(map(_is_fused, reads_of(gradient))):
                return _Attention(gradient, softmax, scored, weights, result, product, others)
        return None

    def rewrite(self, graph: Graph, sizes: SizeNodes) -> None:
        scores, most, total = self._statistics(graph, sizes)
        first = min([self.gradient, *self.again])  # in the order of the graph
        with graph.inserting_before(first):
            make = _Maker(graph, self.gradient, sizes)
            distance = make(aten.sub.Tensor, scores, most)
            scaled = make(aten.mul.Tensor, distance, LOG2_E)
            power = make(aten.sub.Tensor, scaled, make(aten.log2.default, total))
            again = make(aten.exp2.default, power)
            for node in (again, power, scaled, distance):
                _again(node)
        self._weigh_again(graph, first, again, sizes)
        mark([*self.scored, self.result, self.given, *self.again, *reads_of(self.gradient)])
        given, _, _, dtype = self.gradient.args
        with graph.inserting_before(self.gradient):
            wide = again.meta["val"].dtype
            seed, result = (make(aten._to_copy.default, x, dtype=wide) for x in (self.given.args[0], self.result))
            dot = make(aten.sum.dim_IntList, make(aten.mul.Tensor, seed, result), [-1], True)
            flat = make.view(make.cast(given, wide), sizes_of(again))
            change = make(aten.mul.Tensor, again, make(aten.sub.Tensor, flat, dot))
            change = make.view(make.cast(change, dtype), sizes_of(self.gradient))
        self.gradient.replace_all_uses_with(change)
        graph.erase_node(self.gradient)

    def _statistics(self, graph: Graph, size_nodes: SizeNodes) -> tuple[Node, Node, Node]:
        """The scores, and of each row their maximum and the sum of exponentials, of the sizes of the product: a batch, rows and keys."""
        old = self.softmax.probabilities
        sizes = [*sizes_of(self.result)[:2], sizes_of(old)[-1]]
        with graph.inserting_before(old):
            make = _Maker(graph, old, size_nodes)
            scores = make.view(self.softmax.scores, sizes)
            most = make(aten.amax.default, scores, [-1], True)
            power = make(aten.exp.default, make(aten.sub.Tensor, scores, most))
            total = make(aten.sum.dim_IntList, power, [-1], True)
            new = make.view(make(aten.div.Tensor, power, total), sizes_of(old))
        old.replace_all_uses_with(new)
        self.weights[0] = new
        for node in (most, total):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        for node in (*self.scored, scores, *made_of_numbers(self.scored)):
            _again(node)
        return scores, most, total

    def _weigh_again(self, graph: Graph, at: Node, again: Node, sizes: SizeNodes) -> None:
        """Has the backward read weights that are computed from probabilities `again`."""
        first, *rest = self.weights
        with graph.inserting_before(at):
            copies = {first: _again(_Maker(graph, first, sizes).view(again, sizes_of(first)))}
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
    sizes: SizeNodes

    def __call__(self, target: OpOverload, *args: Any, **kwargs: Any) -> Node:
        made = call_like(self.graph, self.like, target, *args, **kwargs)
        made.meta.pop("recompute", None)
        return made

    def view(self, node: Node, sizes: Sequence[int]) -> Node:
        return node if are_alike(sizes_of(node), sizes) else self(aten.view.default, node, self.sizes(sizes))

    def cast(self, node: Node, dtype: torch.dtype) -> Node:
        return node if node.meta["val"].dtype == dtype else self(aten._to_copy.default, node, dtype=dtype)


def _again(node: Node) -> Node:
    node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    return node


def _given(given: Node, result: Node) -> Node | None:
    """The one product that the gradient `given` of the probabilities is computed from: of the gradient of `result` and of the values."""
    products = [node for node in made_of_product(given) or () if node.target is aten.bmm.default]
    if len(products) != 1:
        return None
    seed, values = products[0].args
    turned = values.target in (aten.transpose.int, aten.permute.default) and values.args[0] is result.args[1]
    return products[0] if turned and are_alike(sizes_of(seed), sizes_of(result)) else None


def _is_fused(reader: Node) -> bool:
    """Whether a reader of the gradients of scores is a product, or a sum over one dim of their batch, as the gradient of a bias: then they are
    in no memory."""
    return sums_batch(reader) or reader.target is aten.bmm.default
