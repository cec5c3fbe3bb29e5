"""Costs of padding a matrix product of 16-bit floats, and of not padding it: seconds on a GPU such as an H200.

Only their ratio matters: tensor cores and memory of other GPUs are about as far apart.
"""

from itertools import product

from bascule.dialect.machines.measures import value

Widths = tuple[int, int, int]  # by how much the sizes (m, k, n) of a product are enlarged

OPERATIONS = value("h200", "product_rate")  # a second, of an aligned product
BYTES = value("h200", "memory_rate")  # a second, of memory
# How often the time of an aligned product one takes whose rows begin at multiples of so many bytes.
SLOWER = {int(alignment): times for alignment, times in value("h200", "unaligned_products").items()}
# Of the time of an aligned product, what a kernel takes longer that stores the result at unaligned rows itself (`expand-products`): 0.05 to 0.22
# (H200, 2026-11-30, `python -m benchmarks.products`).
STORED = 0.2


def best_widths(sizes: tuple[int, int, int], wanted: Widths, itemsize: int, copied: bool) -> Widths:
    """Of the `wanted` widths, 0 where rows do not run along a size, those that make the product fastest. `copied`: a result with padded rows
    is copied to be read."""
    options = product(*((0, width) if width else (0,) for width in wanted))
    rows = [width > 0 for width in wanted]
    return min(((m, k, n) for m, k, n in options), key=lambda x: (_seconds(sizes, x, rows, itemsize, copied), x))


def _seconds(sizes: tuple[int, int, int], widths: Widths, rows: list[bool], itemsize: int, copied: bool) -> float:
    """Of the product and of copying operands and result, where the sizes that `rows` marks are lengths of unaligned rows."""
    m, k, n = (size + width for size, width in zip(sizes, widths))
    left = [size * itemsize for size, width, unaligned in zip(sizes, widths, rows) if unaligned and not width]
    alignment = min((length & -length for length in left), default=max(SLOWER))
    moved = (m * k if widths[0] or widths[1] else 0) + (k * n if widths[1] or widths[2] else 0)
    aligned = max(2.0 * m * k * n / OPERATIONS, (m * k + k * n + m * n) * itemsize / BYTES)
    copy = min(2.0 * m * n * itemsize / BYTES, STORED * aligned) if widths[2] and copied else 0.0
    return aligned * SLOWER[alignment] + 2.0 * moved * itemsize / BYTES + copy
