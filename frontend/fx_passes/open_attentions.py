"""Attentions with a bias that PyTorch gives its memory-efficient kernel, as tensor operators in the forms that `fuse-attention` and
`fuse-products` make kernels of.

cuDNN's and flash attention's kernels refuse a bias that has a gradient; the kernel that takes one writes the gradient of each score. Here the
gradient of a bias that batches share is summed where it is computed, and a dropout is drawn as others are (`seed-dropouts`). A row whose scores
are all -inf is 0, and has no gradients, as PyTorch's.

On an H200 (2026-11-27, PyTorch 2.11, 4 x 16 heads of 128, 2048 rows and keys, forward and backward) that took 2.50 ms for 4.65, and 67 MB for
570. A bias that the graph computes, as one of relative positions, is in memory once for all layers that read it (`inline-producers`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from ..fx.fused_products import DEEPEST, LEAST, are_alike, mark
from ..fx.node_calls import arguments_of
from ..fx.output_strides import laid_out
from ..fx.storages import is_view
from ..fx.trace_context import fake_mode_of, hint, known
from ..graph_split import biased_attention
from ..graph_split.higher_order_decompositions import traced_function
from .attention_structure import NARROW, is_pointwise, reads_of, sums_batch
from .seed_dropout import CHECKPOINTED

aten = torch.ops.aten

FORWARD = aten._scaled_dot_product_efficient_attention.default
BACKWARD = aten._scaled_dot_product_efficient_attention_backward.default
OUT, LOGARITHM = 0, 1  # results of the forward that are read
BIAS = 3  # its place among the operands, and its gradient's among the results


def open_attentions(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Makes attentions with a bias products and a softmax, where kernels without scores in memory come of them. Returns how many."""
    return _open(graph, devices, drawing=False)


def open_drawing_attentions(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Makes attentions with a bias and a dropout products, a softmax and a dropout that the backward draws again. Returns how many."""
    return _open(graph, devices, drawing=True)


def _open(graph: Graph, devices: Sequence[str], *, drawing: bool) -> int:
    nodes = graph.find_nodes(op="call_function", target=FORWARD)
    found = [_Attention.of(node) for node in nodes if node.args[0].meta["val"].device.type in devices]
    attentions = [attention for attention in found if attention is not None and (attention.dropout > 0) == drawing]
    for attention in attentions:
        attention.open()
    return len(attentions)


@dataclass(frozen=True)
class _Attention:
    """`forward`, whose results its one `backward` reads beside the user, if there is a gradient. `results`: by place."""

    forward: Node
    backward: Node | None
    results: dict[int, Node]
    scale: float
    dropout: float

    @staticmethod
    def of(forward: Node) -> "_Attention | None":
        query, key, value, bias, _, dropout, causal, scale = arguments_of(forward)
        results = _results(forward)
        readers = {user for place, node in results.items() if place != OUT for user in node.users}
        backward = next(iter(readers), None)
        plain = OUT in results and isinstance(bias, Node) and 0.0 <= dropout < 1.0 and causal is False
        if not plain or len(readers) > 1 or not _takes(*(x.meta["val"] for x in (query, key, value, bias))):
            return None
        if any(name in forward.meta for name in CHECKPOINTED):
            return None
        if backward is not None:
            of_bias = _results(backward).get(BIAS) if backward.target is BACKWARD else None
            if backward.target is not BACKWARD or (of_bias is not None and not all(map(_sums_one, reads_of(of_bias)))):
                return None
        width = query.meta["val"].shape[-1]
        return _Attention(forward, backward, results, width**-0.5 if scale is None else scale, dropout)

    def open(self) -> None:
        query, key, value, bias, *_ = self.forward.args
        count = 1 if self.backward is None else 3 if self.dropout else 2
        made = _spliced(
            self.forward,
            lambda q, k, v, b: biased_attention.attention(q, k, v, b, self.scale, self.dropout)[:count],
            [query, key, value, bias],
            [self.forward.meta["val"][OUT], None, None][:count],
        )
        if self.backward is not None:
            self._open_backward(self.backward, made)
        self.results[OUT].replace_all_uses_with(made[OUT])
        for node in (*self.results.values(), self.forward):
            self.forward.graph.erase_node(node)

    def _open_backward(self, backward: Node, made: Sequence[Node]) -> None:
        seed, query, key, value, bias, *_ = backward.args
        wanted = _results(backward)
        for node in (made[LOGARITHM], _stored(made[OUT])):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE

        gradients = partial(biased_attention.gradients, scale=self.scale, dropout=self.dropout)

        def function(*given: Any) -> list[Tensor]:
            found = gradients(*given)
            return [found[place] for place in wanted]

        given = [seed, query, key, value, bias, *made]
        found = _spliced(backward, function, given, [backward.meta["val"][place] for place in wanted], seed)
        for node, new in zip(wanted.values(), found):
            node.replace_all_uses_with(new)
        for node in (*wanted.values(), backward):
            node.graph.erase_node(node)


def _stored(node: Node) -> Node:
    """The node that `node` is a view of."""
    while is_view(node):
        node = node.args[0]
    return node


def _sums_one(reader: Node) -> bool:
    """Whether a reader of gradients of scores is a sum over one dim of their batch, of those of one attention."""
    if not sums_batch(reader):
        return False
    found, todo = set[Node](), [reader.args[0]]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes if is_pointwise(node) else []
    return sum(node.target is getitem and node.args[0].target is BACKWARD for node in found) == 1


def _results(node: Node) -> dict[int, Node]:
    """The results of `node` that are read, by place."""
    found: dict[int, Node] = {user.args[1]: user for user in node.users if user.target is getitem}
    return found


def _takes(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> bool:
    """Whether the kernels take such operands: heads of static sizes; others may change from call to call."""
    if query.dtype not in NARROW or not query.dtype == key.dtype == value.dtype == bias.dtype:
        return False
    if not all(known(size > 0) for x in (query, key, value) for size in x.shape):
        return False
    alike = all(are_alike(query.shape[:2], x.shape[:2]) for x in (key, value, bias))
    return (
        alike
        and all((hint(size) or 0) >= LEAST for size in (query.shape[2], key.shape[2]))
        and all(isinstance(size, int) and LEAST <= size <= DEEPEST for size in (query.shape[3], value.shape[3]))
    )


def _spliced(
    at: Node, function: Any, operands: Sequence[Node], likes: Sequence[Tensor | None], seed: Node | None = None
) -> list[Node]:
    """The results of `function` of `operands`, by nodes before `at`, with the strides of `likes`. In a backward what does not depend
    on its operand `seed` is computed anew."""
    values = [x.meta["val"] for x in operands]
    traced = traced_function(
        lambda *x: [laid_out(one, like) for one, like in zip(function(*x), likes)],
        values,
        fake_mode_of(values),
        {},
        at,
    )
    made: dict[Node, Node] = {}
    own = {seed}
    with at.graph.inserting_before(at):
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                made[node] = operands[len(made)]
            elif node.op == "output":
                mark(made.values())
                return [made[x] for x in node.args[0]]
            else:
                new = made[node] = at.graph.node_copy(node, made.__getitem__)
                new.meta = {**{k: v for k, v in at.meta.items() if k != "tensor_meta"}, "val": node.meta["val"]}
                if own.intersection(new.all_input_nodes):
                    own.add(new)
                elif seed is not None:
                    new.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    raise AssertionError("a graph without an output")
