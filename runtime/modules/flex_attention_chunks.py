"""Attention by chunks of query rows, each over the keys that a mask of blocks leaves it."""

from collections.abc import Callable, Sequence

import torch


def in_chunks(
    chunk: Callable[..., Sequence[torch.Tensor]],
    *,
    rows: int,
    query: int,
    key: int,
    value: int,
    tables: Sequence[tuple[int, int]],
    row_block: int,
    key_block: int,
    used: Sequence[int],
    results: Sequence[torch.Tensor],
) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """A function of an attention's operands. `chunk(first row, first key, rows of the query, keys, values, *operands)` returns those of the
    results whose numbers are `used`, of `rows` rows; the others are None.

    `query`, `key`, `value` and `tables` are positions of operands. A table is the counts [.., blocks of `row_block` rows] and the numbers
    [.., blocks of rows, blocks of `key_block` keys] of the blocks of keys that count. `results`: tensors of the sizes, strides and dtypes of
    the results. Rows are dimension 2 of all.
    """
    layouts = [(tuple(x.shape), x.stride(), x.dtype) for x in results]

    def call(*operands: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v = operands[query], operands[key], operands[value]
        made = [
            torch.empty_strided(size, stride, dtype=dtype) if number in used else None
            for number, (size, stride, dtype) in enumerate(layouts)
        ]
        ranges = _ranges([(operands[count], operands[which]) for count, which in tables])
        for start in range(0, q.shape[2], rows):
            row = min(start, q.shape[2] - rows)
            needed = ranges[row // row_block : (row + rows - 1) // row_block + 1]
            first = min(low for low, _ in needed) * key_block
            last = max((high for _, high in needed)) * key_block
            first, last = max(0, min(first, k.shape[2] - 2, last - 2)), max(2, min(last, k.shape[2]))
            part = slice(first, last)
            found = chunk(
                torch.tensor(row),
                torch.tensor(first),
                q[:, :, row : row + rows],
                k[:, :, part],
                v[:, :, part],
                *operands,
            )
            for number, result in zip(used, found, strict=True):
                made[number][:, :, row : row + rows] = result  # type: ignore[index]
        return tuple(made)

    return call


def _ranges(tables: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[tuple[int, int]]:
    """The first block of keys of each block of rows, and the one after the last, over all batches and heads; (most, 0) of none."""
    found = []
    for count, which in tables:
        blocks = which.shape[-1]
        listed = torch.arange(blocks) < count[..., None]
        low = torch.where(listed, which, blocks).amin(-1).flatten(0, -2).amin(0)
        high = torch.where(listed, which + 1, 0).amax(-1).flatten(0, -2).amax(0)
        found.append((low, high))
    lows, highs = (torch.stack(numbers) for numbers in zip(*found))
    return list(zip(lows.amin(0).tolist(), highs.amax(0).tolist()))
