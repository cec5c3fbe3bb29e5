"""Few rows of `flex_attention` over the keys that the tables of a block mask list, in their order there: a cache in pages is read through the
tables, by the kernel of the attention, and nothing of the cache that is another sequence's is walked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..fx.fused_products import DEEPEST, LEAST
from .flex_attention import Change, reads_alike

aten = torch.ops.aten

NARROW = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class ListedKeys:
    """Blocks of keys, each of `size`, by their numbers in `table`, batch x places in the list; of a sequence as many keys as `lengths` says."""

    table: Tensor
    size: int
    lengths: Tensor

    @staticmethod
    def of(
        query: Tensor, key: Tensor, value: Tensor, mask: Sequence[Any], captured: Sequence[Any]
    ) -> "ListedKeys | None":
        """Those of `mask`, the operand of `flex_attention`; None where a kernel rather walks all keys: those of many rows, where each sequence
        has keys of its own, or where places alone tell what is hidden, for then they bound the walk."""
        _, _, count, which, full_count, full_which, *_, block, _ = mask
        looked_up = count is not None and any(isinstance(x, Tensor) for x in captured) and _takes(query, key, value)
        if not looked_up or not (key.shape[0] == value.shape[0] == 1 < query.shape[0]):
            return None
        if not _is_of_all_rows(count, which, query):
            return None
        blocks, rest = divmod(key.shape[2], block)
        if rest:
            return None
        count, which = count[:, 0, 0], which[:, 0, 0]
        if full_count is not None and full_which is not None:
            if not _is_of_all_rows(full_count, full_which, query):
                return None
            which, count = _joined(which, count, full_which[:, 0, 0], full_count[:, 0, 0], blocks)
        return ListedKeys(which.clamp(0, blocks - 1), block, count * block)

    def read(self, x: Tensor) -> Tensor:
        """Keys or values that are listed: batch x heads x slots x columns."""
        _, heads, keys, columns = x.shape
        blocks = x.view(heads, keys // self.size, self.size, columns)[:, self.table]
        return blocks.transpose(0, 1).reshape(self.table.shape[0], heads, -1, columns)

    def change(self, change: Change) -> Change:
        """`change`, whose functions are of the places of keys, as one of slots."""
        count = len(change.captured)

        def function(*args: Any) -> Any:
            *indices, slot, table = args[: len(args) - count]
            block = aten.index.Tensor(table, [indices[-3], slot // self.size])
            return change.function(*indices, block * self.size + slot % self.size, *args[len(args) - count :])

        return Change(function, (self.table, *change.captured))

    def hidden(self) -> Tensor:
        """Slots that are not listed: batch x 1 x 1 x slots."""
        slot = torch.arange(self.table.shape[1] * self.size, device=self.table.device)
        return slot >= self.lengths[:, None, None, None]


def _takes(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether a kernel reads keys through a table, not a copy of them."""
    sizes = [size for x in (query, key, value) for size in x.shape]
    static = all(isinstance(size, int) and size > 0 for size in sizes)
    heads = static and all(LEAST <= x.shape[3] <= DEEPEST for x in (query, value))
    return heads and query.dtype in NARROW and query.device.type != "cpu" and reads_alike(query, key)


def _is_of_all_rows(count: Tensor, which: Tensor, query: Tensor) -> bool:
    """Whether one list is that of all heads and rows of a sequence."""
    static = all(isinstance(size, int) and size > 0 for size in (*count.shape, *which.shape))
    return static and count.shape == (query.shape[0], 1, 1) and which.shape[:3] == count.shape


def _joined(which: Tensor, count: Tensor, full: Tensor, full_count: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
    """Two lists as one, of all `blocks` at most: those that a mask cuts, then those of which it hides nothing."""
    slot = torch.arange(min(which.shape[1] + full.shape[1], blocks), device=which.device)
    later = (slot - count[:, None]).clamp(0, full.shape[1] - 1)
    first = which[:, slot.clamp(max=which.shape[1] - 1)]
    return torch.where(slot < count[:, None], first, torch.gather(full, 1, later)), count + full_count
