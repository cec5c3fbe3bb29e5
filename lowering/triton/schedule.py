"""How a kernel runs on a GPU: the only place that decides block sizes.

`schedule-kernels` may have decided: a `#bascule.schedule` with `target = "cuda"` gives `xblock`, `rblock`, `warps`, `stages`, and `index_bits`,
each optional. What it does not give is chosen here:

* straight-line kernels: 1024 points a program, 4 warps (8 elements a thread: 16 bytes of bf16, two of them of f32); fewer for small domains;
* kernels with inner loops whose rows are contiguous: a row of up to `PERSISTENT` elements is one tile, held in registers and read once;
  small rows share a program until it has 1024 elements. A longer row, or one of dynamic size, is walked `LOOPED` elements at a time;
* kernels with inner loops whose domain is contiguous instead (column sums): 64 columns by 32 rows, walked;
* 1 to 16 warps: 8 elements a thread in straight-line kernels, 32 in rows (16 warps on 4096 elements of layer_norm reached 43 % of an H200's copy
  bandwidth, 4 warps 90 %), 4 in columns;
* 32-bit indices if no buffer, rounded up to whole tiles, reaches 2**31 elements; 64-bit ones where a size is dynamic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bascule.dialect.mlir import ir

POINTS = 1024  # elements in a tile
PERSISTENT = 16384  # the longest row held in registers, in elements
LOOPED = 2048  # elements of a longer row in a step
COLUMNS, ROWS = 64, 32  # the tile of a column reduction
LIMIT = 1 << 31


@dataclass(frozen=True)
class Loops:
    """What the schedule of one parallel domain depends on. Sizes in points, None: dynamic. `columns`: the domain is contiguous, not the rows."""

    domain: int | None
    inner: tuple[int | None, ...]
    columns: bool


@dataclass(frozen=True)
class Schedule:
    """`xblock`: points of the domain in a program; `rblock`: the longest inner loop that is one tile, and the step of longer ones."""

    xblock: int
    rblock: int
    warps: int
    stages: int
    index_bits: int


def power_of_two(size: int) -> int:
    """The smallest power of two that is `size` or more."""
    return 1 << max(0, size - 1).bit_length()


def largest(sizes: Sequence[int | None]) -> int | None:
    return None if None in sizes else max((size for size in sizes if size is not None), default=0)


def choose(loops: Loops, buffers: Sequence[int | None], decided: dict[str, int]) -> Schedule:
    """The schedule; `buffers` are the spans of the kernel's buffers in elements, `decided` what its attribute says."""
    domain = loops.domain if loops.domain is not None else LIMIT
    if not loops.inner:
        xblock, rblock, each = min(POINTS, max(32, power_of_two(domain))), 1, 8
    elif loops.columns:
        xblock, rblock, each = min(COLUMNS, power_of_two(domain)), ROWS, 4
    else:
        longest = largest(loops.inner)
        fits = longest is not None and power_of_two(longest) <= PERSISTENT
        rblock = power_of_two(longest) if fits and longest is not None else LOOPED
        xblock, each = min(max(1, POINTS // rblock), power_of_two(domain)), 32
    xblock, rblock = decided.get("xblock", xblock), decided.get("rblock", rblock)
    warps = decided.get("warps", min(16, max(1, xblock * rblock // (32 * each))))
    span = largest([*buffers, loops.domain, *loops.inner])
    narrow = span is not None and span + max(xblock, rblock) < LIMIT
    return Schedule(xblock, rblock, warps, decided.get("stages", 1), decided.get("index_bits", 32 if narrow else 64))


def decisions(kernel: ir.Operation) -> dict[str, int]:
    """What the kernel's schedule says for a GPU; nothing if it is for another target."""
    if "schedule" not in kernel.attributes:
        return {}
    config = ir.DictAttr(kernel.attributes["schedule"].config)
    found = {entry.name: entry.attr for entry in config}
    if "target" not in found or found["target"].value != "cuda":
        return {}
    return {name: value.value for name, value in found.items() if isinstance(value, ir.IntegerAttr)}
