"""`flex_attention` by chunks of query rows, each over the keys between the first and the last block that the mask lists for its rows. So memory
grows with one length instead of with the product of two, and what a mask leaves out is not computed.

Only for tensors on a CPU, of static sizes: which keys a chunk needs is read from the mask's tables when the graph runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.node import map_arg

from bascule.compat.graphs.dynamo import ConstantSource
from bascule.compat.tensors.fake_tensors import FakeTensorMode

from .flex_attention import Change, changed, working_dtype
from .higher_order_decompositions import attribute, operands, traced_function

ROWS = 128  # about as many in a chunk: products of fewer rows are slower, of more rows what is masked is more

aten = torch.ops.aten


@dataclass(frozen=True)
class Chunks:
    """`graph` takes the first row and the first key of a chunk as tensors of rank 0, the rows of the query, keys and values, and `operands` of
    the node; it returns those of the results that `used` names."""

    graph: GraphModule
    rows: int
    query: int  # position among the operands; so are the others
    key: int
    value: int
    tables: tuple[tuple[int, int], ...]  # of the mask: how many blocks of keys a block of rows has, and which
    row_block: int
    key_block: int
    used: tuple[int, ...]
    results: tuple[torch.Tensor, ...]  # fake: all results of the node


def query_chunks(gm: GraphModule, node: Node, decompositions: dict[Any, Callable]) -> Chunks | None:
    """How `node` of `gm` is computed by chunks; None where it is not worth it or not known beforehand."""
    if node.target.name() != "flex_attention":
        return None
    query, key, value, score, mask, *rest = node.args
    given = operands(node)
    values = [x.meta["val"] for x in given]
    if not all(isinstance(x, torch.Tensor) and x.device.type == "cpu" and _is_static(x) for x in values):
        return None
    *_, row_block, key_block, mask_mod = mask
    rows = row_block * max(1, ROWS // row_block) if row_block <= 2 * ROWS else ROWS
    if min(query.meta["val"].shape[2], key.meta["val"].shape[2]) < 2 * rows:
        return None
    if all(user.target is getitem for user in node.users):
        used = sorted({user.args[1] for user in node.users})
    else:
        used = list(range(len(node.meta["val"])))

    env = ShapeEnv()
    length = _new_size({size for x in values for size in x.shape}, rows, env)
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    with mode:
        fakes = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype) for x in values]
        q, k, v = (fakes[given.index(x)] for x in (query, key, value))
        first = [torch.empty((), dtype=torch.int64) for _ in range(2)]
        parts = [
            torch.empty_strided((*x.shape[:2], size, x.shape[3]), x.stride(), dtype=x.dtype)
            for x, size in ((q, rows), (k, length), (v, length))
        ]

    def chunk(row: Any, column: Any, q: Any, k: Any, v: Any, *others: Any) -> list[Any]:
        known = dict(zip(given, others))
        scale, _, score_buffers, mask_buffers = map_arg(
            tuple(rest), lambda x: known[x] if x in known else attribute(gm, x.target)
        )
        change, allow = attribute(gm, score.target), attribute(gm, mask_mod.target)
        results = _attention(row, column, q, k, v, Change(change, score_buffers), Change(allow, mask_buffers), scale)
        return [results[number] for number in used]

    traced = traced_function(chunk, [*first, *parts, *fakes], mode, decompositions, node)
    tables = tuple(
        (given.index(count), given.index(which)) for count, which in (mask[2:4], mask[4:6]) if count is not None
    )
    return Chunks(
        traced,
        rows,
        query=given.index(query),
        key=given.index(key),
        value=given.index(value),
        tables=tables,
        row_block=row_block,
        key_block=key_block,
        used=tuple(used),
        results=tuple(node.meta["val"]),
    )


def _attention(
    row: torch.Tensor,
    column: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    score: Change,
    mask: Change,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Computes the results of `flex_attention` for queries from `row` on and keys from `column` on: the result, the logarithm to base 2 of the
    sum of powers, the largest score. In f32 (f64 of f64)."""
    working = working_dtype(q)
    batch, heads, rows, _ = q.shape
    grouped = (k.shape[1], heads // k.shape[1] * rows)  # all rows that read the same keys are one matrix
    k, v = (x.expand(batch, *x.shape[1:]) for x in (k, v))
    products = q.to(working).reshape(batch, *grouped, -1) @ k.to(working).transpose(-2, -1)
    indices = (
        *(torch.arange(size) for size in (batch, heads)),
        torch.arange(rows) + row,
        torch.arange(k.shape[2]) + column,
    )
    scores = changed(products.reshape(batch, heads, rows, -1) * scale, indices, score, mask)
    masked = (scores == -math.inf).all(-1)
    total = torch.where(masked, -math.inf, scores.logsumexp(-1)) / math.log(2)
    powers = aten._safe_softmax(scores, -1).to(q.dtype)
    out = powers.reshape(batch, *grouped, -1) @ v.to(q.dtype)
    return out.reshape(batch, heads, rows, -1), total, scores.amax(-1) / math.log(2)


def _is_static(x: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in (*x.shape, *x.stride()))


def _new_size(taken: set[int], least: int, env: ShapeEnv) -> torch.SymInt:
    """A size that is known when the graph runs: that of the keys of a chunk, 2 at least."""
    hint = next(number for number in range(least + 1, 2 * least + len(taken)) if number not in taken)
    source = ConstantSource("keys_of_a_chunk")
    symbol = env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
    return env.create_symintnode(symbol, hint=hint, source=source)
