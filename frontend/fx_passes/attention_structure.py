"""Attention by hand in FX graphs, by its structure: scores made of a product, their softmax, a product of that and values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import OpOverload

from ..fx.fused_products import DEEPEST, LEAST, mark, sizes_of
from ..fx.operator_effects import draws
from ..fx.storages import is_view
from ..fx.trace_context import hint, known

aten = torch.ops.aten

NARROW = (torch.float16, torch.bfloat16)
TILE = 64  # rows of a program, of an attention of many
COPIES = (aten._to_copy.default, aten.detach.default, aten.clone.default, aten.view.default, aten.expand.default)
# What attention by hand is a kernel of. Its kernels take f32 too, of which `flex_attention` has them; calls of products are faster at that than
# what no GPU has timed.
BY_HAND = NARROW
# Of their first operand homogeneous, element by element, whatever the others are.
SCALINGS = (aten.native_dropout_backward.default, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar)
CREATIONS = (
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.full.default,
    aten.scalar_tensor.default,
)


@dataclass(frozen=True)
class Softmax:
    """`probabilities` = exp(scores - max) / sum of those, along the last dim."""

    scores: Node
    probabilities: Node

    @staticmethod
    def of(node: Node) -> "Softmax | None":
        while node.target in (aten.detach.default, aten._to_copy.default):
            node = node.args[0]
        if node.target is not aten.div.Tensor or not all(isinstance(arg, Node) for arg in node.args):
            return None
        power, total = node.args
        if power.target is not aten.exp.default or power.args[0].target is not aten.sub.Tensor:
            return None
        scores, largest = power.args[0].args
        if not isinstance(largest, Node) or power.args[0].kwargs:
            return None
        last = len(node.meta["val"].shape) - 1
        reduced = (total.target, largest.target) == (aten.sum.dim_IntList, aten.amax.default)
        if not reduced or (total.args[0], largest.args[0]) != (power, scores):
            return None
        if last < 0 or any([dim % (last + 1) for dim in each.args[1]] != [last] for each in (total, largest)):
            return None
        return Softmax(scores, node)


def weights_of(probabilities: Node) -> Iterator[Node]:
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


def made_of_product(scores: Node) -> list[Node] | None:
    """The nodes by which `scores` are computed, element by element, from a product of numbers that a kernel takes, that included; None where
    there is anything else in between."""
    found = dict[Node, bool]()  # whether it depends on a product

    def depends(node: Node) -> bool:
        if node not in found:
            found[node] = False
            if node.target is aten.bmm.default:
                found[node] = _multiplied(node) is not None
            elif is_pointwise(node):
                found[node] = any([depends(operand) for operand in node.all_input_nodes])
        return found[node]

    return [node for node in found if found[node]] if depends(scores) else None


def _multiplied(product: Node) -> torch.dtype | None:
    """The dtype that a kernel multiplies the factors of `product` in; None for others, and for numbers of 16 bits that are widened before."""
    dtype = product.meta["val"].dtype
    taken = dtype in BY_HAND and (dtype in NARROW or not any(map(_is_widened, product.args)))
    return dtype if taken else None


def _is_widened(factor: Node) -> bool:
    """Whether `factor` is what fewer bits are widened to, laid out anew or not."""
    while factor.target in (*COPIES, aten.permute.default, aten.transpose.int) or is_view(factor):
        if factor.args[0].meta["val"].dtype in NARROW:
            return True
        factor = factor.args[0]
    return False


def reads_of(scores: Node) -> list[Node]:
    """The readers of `scores`, or of what is computed from them element by element, that are something else."""
    computed, readers = {scores}, list[Node]()
    for node in _after(scores):
        if not computed.isdisjoint(node.all_input_nodes):
            if is_pointwise(node):
                computed.add(node)
            else:
                readers.append(node)
    output = scores.graph.output_node()
    return [*readers, output] if not computed.isdisjoint(output.all_input_nodes) else readers


def mark_attention_products(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Marks the two products of an attention by hand on `devices`, which `fuse-attention` makes one kernel, where nothing else reads what is
    between them; returns how many attentions there were."""
    found = 0
    for node in graph.find_nodes(op="call_function", target=aten.div.Tensor):
        softmax = Softmax.of(node) if node.meta["val"].device.type in devices else None
        scored = None if softmax is None else made_of_product(softmax.scores)
        readers = reads_of(node)
        if scored is None or len(readers) != 1 or readers[0].target is not aten.bmm.default:
            continue
        weights = list(weights_of(node))
        sizes = node.meta["val"].shape
        if all(known(size > 0) for size in sizes) and readers[0].args[0] in weights and fits(readers[0], scored, sizes):
            mark([*scored, readers[0]])
            found += 1
    return found


def is_gathered(node: Node) -> bool:
    """Whether `node` is what an index from data gathers, laid out anew or not."""
    while node.target in (*COPIES, aten.permute.default, aten.transpose.int) or is_view(node):
        node = node.args[0]
    return node.target in (aten.index.Tensor, aten.index_select.default, aten.embedding.default)


def sums_batch(reader: Node) -> bool:
    """Whether a reader of scores, or of their gradients, is a sum over one dim of their batch."""
    if reader.target is not aten.sum.dim_IntList:
        return False
    rank = len(reader.args[0].meta["val"].shape)
    return rank > 2 and [dim % rank < rank - 2 for dim in reader.args[1]] == [True]


def made_of_numbers(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that `nodes` read and that are computed of numbers alone, as masks by places are: they need not be in memory."""
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
    return made or (bool(node.all_input_nodes) and is_pointwise(node))


def is_pointwise(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    seeded = draws(node.target)
    return node.target in COPIES or is_view(node) or (torch.Tag.pointwise in node.target.tags and not seeded)


def fits(result: Node, scored: Sequence[Node], sizes: Sequence[int | torch.SymInt]) -> bool:
    """Whether the kernels take what is summed, all of one dtype, and so many rows, and rows and columns are those of the products. Heads are
    static, other sizes may change from call to call."""
    batch, rows, _ = sizes_of(result)
    alike = known(rows == sizes[-2]) and known(batch == prod(sizes[:-2]))
    products = [*(node for node in scored if node.target is aten.bmm.default), result]
    deep = [*(sizes_of(node.args[0])[-1] for node in products[:-1]), sizes_of(result)[-1]]
    dtypes = {_multiplied(node) for node in products}
    return (
        alike
        and len(dtypes) == 1
        and None not in dtypes
        and _are_enough(rows, sizes[-1], result.args[1])
        and all(isinstance(n, int) and LEAST <= n <= DEEPEST for n in deep)
    )


def _are_enough(rows: int | torch.SymInt, keys: int | torch.SymInt, values: Node) -> bool:
    """Whether a kernel takes no longer than calls do of so few rows. Keys and values that an index gathers, as from a cache of pages, are
    written first for a call. Rows that change have no parts of keys beside each other: where they are not as many as keys, there is a tile of
    them now."""
    if isinstance(rows, int):
        return rows >= LEAST or (rows > 1 and is_gathered(values))
    return known(rows == keys) or (hint(rows) or 0) >= TILE
