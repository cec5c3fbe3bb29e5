"""Where a condition of a mask hides nothing it is known: of masks as people write them, and of any."""

import random

import pytest
from bascule.dialect.analysis.products.mask_conditions import mask_conditions
from bascule.dialect.analysis.products.visible_keys import Masks
from bascule.dialect.mlir import ir

from tests.dialect.analysis.products.test_visible_keys import (
    CAST,
    HIDDEN,
    KEYS,
    NEVER,
    ROWS,
    SHOWN,
    WRITTEN,
    Mask,
    sizes,
    span,
)
from tests.dialect.small_kernels import compute, kernel, mlir

__all__ = ["mlir"]


def found(*lines):
    """Of each condition that is known in a row which `lines` compute: what it is in most places, and the others of each row."""
    row = compute("%row", "%n", str(KEYS), "\n".join([*CAST, *NEVER, *lines]), "%score", f"tensor<{KEYS}xf32>")
    op = kernel("%buffer: memref<1xf32>", "%i", str(ROWS), row)
    scores = op.regions[0].blocks[0].operations[0].operation
    dims = {op.regions[0].blocks[0].arguments[0]: 0, scores.regions[0].blocks[0].arguments[0]: 1}
    masks = Masks(1, sizes(), lambda v: ir.AffineExpr.get_dim(dims[v]))
    return [
        (each.shown, [{k for interval in each.hiding for k in range(*span(interval, r))} for r in range(ROWS)])
        for each in mask_conditions(scores, masks)
    ]


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "one key"])
def test_masks_that_are_written(name):
    lines, shows = WRITTEN[name]
    ((shown, hiding),) = found(*lines)
    assert shown == (HIDDEN not in lines)
    for row in range(ROWS):
        assert hiding[row] == {key for key in range(KEYS) if not shows(row, key)}


def test_one_key_is_seen():
    """All others are hidden: those before it, and those after it."""
    ((shown, hiding),) = found(*WRITTEN["one key"][0])
    assert shown and hiding == [set(range(KEYS)) - {row} for row in range(ROWS)]


@pytest.mark.parametrize("seed", range(300))
def test_elsewhere_the_condition_is_known(seed):
    mask = Mask(random.Random(seed))
    condition, holds = mask.condition(3)
    select = random.Random(seed).choice([SHOWN, HIDDEN]).replace("%c", condition)
    for shown, hiding in found(*mask.lines, select):
        for row, keys in enumerate(hiding):
            assert all(holds(row, key) == shown for key in range(KEYS) if key not in keys)


def test_of_many_random_masks_something_is_known():
    known = 0
    for seed in range(100):
        mask = Mask(random.Random(seed))
        condition, _ = mask.condition(3)
        known += len(found(*mask.lines, SHOWN.replace("%c", condition)))
    assert known > 20
