"""Bounds of the keys that masks leave: of masks as people write them the least, of any mask no key too few."""

import random

import pytest
from bascule.dialect.analysis.products.visible_keys import extreme, visible_keys
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, kernel, mlir

__all__ = ["mlir"]

ROWS, KEYS = 13, 17
CAST = ["%r = arith.index_cast %i : index to i64", "%k = arith.index_cast %n : index to i64"]
NEVER = ["%never = arith.constant 0xFF800000 : f32", "%s = arith.constant 1.0 : f32"]


class Mask:
    """The lines of a mask, and the same as a function of row and key."""

    def __init__(self, random_=None):
        self.random, self.lines, self.names = random_, [], 0

    def op(self, text, type_="i64"):
        self.names += 1
        self.lines.append(f"%v{self.names} = arith.{text} : {type_}")
        return f"%v{self.names}"

    def number(self, value):
        return self.op(f"constant {value}"), lambda r, k: value

    def integer(self, depth):
        draw = self.random.choice(["row", "key", "number"] + ["addi", "subi", "muli", "floordivsi"] * depth)
        if draw in ("row", "key"):
            return ("%r", lambda r, k: r) if draw == "row" else ("%k", lambda r, k: k)
        if draw == "number":
            return self.number(self.random.randint(-20, 20))
        x, f = self.integer(depth - 1)
        if draw == "muli":
            y, g = self.number(self.random.choice([-3, -1, 2]))
        elif draw == "floordivsi":
            y, g = self.number(self.random.randint(1, 5))
        else:
            y, g = self.integer(depth - 1)
        rule = {"addi": int.__add__, "subi": int.__sub__, "muli": int.__mul__, "floordivsi": int.__floordiv__}[draw]
        return self.op(f"{draw} {x}, {y}"), lambda r, k: rule(f(r, k), g(r, k))

    def size(self):
        x, f = self.integer(2)
        if self.random.random() < 0.7:
            return x, f
        self.names += 1
        self.lines.append(f"%v{self.names} = math.absi {x} : i64")
        return f"%v{self.names}", lambda r, k: abs(f(r, k))

    def condition(self, depth):
        draw = self.random.choice(["cmpi"] * 2 + ["andi", "ori", "xori"] * depth)
        if draw == "cmpi":
            (x, f), (y, g) = self.size(), self.integer(1)
            if self.random.random() < 0.3:
                (x, f), (y, g) = (y, g), (x, f)
            name, rule = self.random.choice(PREDICATES)
            return self.op(f"cmpi {name}, {x}, {y}"), lambda r, k: rule(f(r, k), g(r, k))
        x, f = self.condition(depth - 1)
        y, g = self._true() if draw == "xori" else self.condition(depth - 1)
        rule = {"andi": lambda a, b: a and b, "ori": lambda a, b: a or b, "xori": lambda a, b: a != b}[draw]
        return self.op(f"{draw} {x}, {y}", "i1"), lambda r, k: rule(f(r, k), g(r, k))

    def _true(self):
        self.names += 1
        self.lines.append(f"%v{self.names} = arith.constant true")
        return f"%v{self.names}", lambda r, k: True


PREDICATES = [
    ("eq", lambda a, b: a == b),
    ("ne", lambda a, b: a != b),
    ("slt", lambda a, b: a < b),
    ("sle", lambda a, b: a <= b),
    ("sgt", lambda a, b: a > b),
    ("sge", lambda a, b: a >= b),
    ("ult", lambda a, b: a % 2**64 < b % 2**64),
    ("uge", lambda a, b: a % 2**64 >= b % 2**64),
]


def bounds(*lines, value="%score", weight=False, unknown=""):
    """Of each row the keys from a bound to another, by the lines that compute `value`; None: nothing bounds them. `unknown`: see `sizes`."""
    body = "\n".join([*CAST, *NEVER, *lines])
    row = compute("%row", "%n", str(KEYS), body, value, f"tensor<{KEYS}xf32>")
    op = kernel("%buffer: memref<1xf32>", "%i", str(ROWS), row)
    scores = op.regions[0].blocks[0].operations[0].operation
    dims = {op.regions[0].blocks[0].arguments[0]: 0, scores.regions[0].blocks[0].arguments[0]: 1}
    block = scores.regions[0].blocks[0]
    score = block.operations[len(block.operations) - 1].operands[0]
    visible = visible_keys(score, 1, sizes(unknown), lambda v: ir.AffineExpr.get_dim(dims[v]), weight=weight)
    return visible and [[span(interval, r) for interval in visible] for r in range(ROWS)]


def sizes(unknown=""):
    """Of rows and keys: constants, one symbol if `unknown` is "alike", two if it is "apart"."""
    if not unknown:
        return {0: expr(ROWS), 1: expr(KEYS)}
    return {0: ir.AffineExpr.get_symbol(0), 1: ir.AffineExpr.get_symbol(int(unknown == "apart"))}


def span(interval, row):
    rules = {"+": int.__add__, "*": int.__mul__, "//": int.__floordiv__}

    def at(e):
        return extreme(e, True, lambda d, least: row, int, lambda name, x, y: rules[name](x, y))

    return max([0, *map(at, interval.first)]), min([KEYS, *map(at, interval.end)])


SHOWN = "%score = arith.select %c, %s, %never : f32"
HIDDEN = "%score = arith.select %c, %never, %s : f32"
WRITTEN = {
    "causal": (["%c = arith.cmpi sgt, %k, %r : i64", HIDDEN], lambda r, k: k <= r),
    "reversed": (
        ["%n9 = arith.constant 9 : i64", "%x = arith.subi %n9, %r : i64", "%c = arith.cmpi sgt, %x, %k : i64", SHOWN],
        lambda r, k: 9 - r > k,
    ),
    "sum": (
        ["%n9 = arith.constant 9 : i64", "%x = arith.addi %k, %r : i64", "%c = arith.cmpi slt, %x, %n9 : i64", SHOWN],
        lambda r, k: r + k < 9,
    ),
    "keys": (["%n9 = arith.constant 9 : i64", "%c = arith.cmpi ult, %k, %n9 : i64", SHOWN], lambda r, k: k < 9),
    "window": (
        ["%n2 = arith.constant 2 : i64", "%d = arith.subi %r, %k : i64", "%x = math.absi %d : i64"]
        + ["%c = arith.cmpi sgt, %x, %n2 : i64", HIDDEN],
        lambda r, k: abs(r - k) <= 2,
    ),
    "one key": (["%c = arith.cmpi eq, %k, %r : i64", SHOWN], lambda r, k: k == r),
    "blocks": (
        ["%n4 = arith.constant 4 : i64", "%x = arith.floordivsi %r, %n4 : i64", "%y = arith.floordivsi %k, %n4 : i64"]
        + ["%c = arith.cmpi eq, %x, %y : i64", SHOWN],
        lambda r, k: r // 4 == k // 4,
    ),
    "stretched": (
        ["%n3 = arith.constant 3 : i64", "%x = arith.muli %r, %n3 : i64", "%y = arith.muli %k, %n3 : i64"]
        + ["%n7 = arith.constant 7 : i64", "%z = arith.addi %y, %n7 : i64", "%c = arith.cmpi sle, %z, %x : i64", SHOWN],
        lambda r, k: 3 * k + 7 <= 3 * r,
    ),
    "added": (
        ["%zero = arith.constant 0.0 : f32", "%c = arith.cmpi sle, %k, %r : i64"]
        + ["%m = arith.select %c, %zero, %never : f32", "%h = arith.truncf %m : f32 to f16"]
        + ["%w = arith.extf %h : f16 to f32", "%two = arith.constant 2.0 : f32", "%scaled = arith.mulf %w, %two : f32"]
        + ["%score = arith.addf %s, %scaled : f32"],
        lambda r, k: k <= r,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_masks_that_are_written(name):
    lines, wanted = WRITTEN[name]
    for row, spans in enumerate(bounds(*lines)):
        ((first, end),) = spans
        assert list(range(first, end)) == [key for key in range(KEYS) if wanted(row, key)]


def test_a_prefix_or_earlier_keys():
    lines = ["%n5 = arith.constant 5 : i64", "%p = arith.cmpi slt, %k, %n5 : i64", "%e = arith.cmpi sle, %k, %r : i64"]
    found = bounds(*lines, "%c = arith.ori %p, %e : i1", SHOWN)
    assert [max(end for _, end in spans) for spans in found] == [max(5, r + 1) for r in range(ROWS)]


NOT = {
    "a finite number": ["%few = arith.constant -3.0e38 : f32", "%c = arith.cmpi sle, %k, %r : i64"]
    + ["%score = arith.select %c, %s, %few : f32"],
    "infinity": ["%inf = arith.constant 0x7F800000 : f32", "%c = arith.cmpi sle, %k, %r : i64"]
    + ["%score = arith.select %c, %s, %inf : f32"],
    "a negative scale": ["%c = arith.cmpi sle, %k, %r : i64", "%m = arith.select %c, %s, %never : f32"]
    + ["%minus = arith.constant -1.0 : f32", "%score = arith.mulf %m, %minus : f32"],
    "either side of one": ["%c = arith.cmpi ne, %k, %r : i64", SHOWN],
    "rows": ["%n5 = arith.constant 5 : i64", "%c = arith.cmpi slt, %r, %n5 : i64", SHOWN],
    "remainders": ["%n5 = arith.constant 5 : i64", "%m = arith.remsi %k, %n5 : i64"]
    + ["%c = arith.cmpi slt, %m, %r : i64", SHOWN],
    "numbers that wrap": ["%k8 = arith.trunci %k : i64 to i8", "%x = arith.constant 20 : i8"]
    + ["%y = arith.muli %k8, %x : i8", "%c = arith.cmpi slt, %y, %x : i8", SHOWN],
    "not a mask": ["%score = arith.addf %s, %s : f32"],
    "every key": ["%n99 = arith.constant 99 : i64", "%c = arith.cmpi slt, %k, %n99 : i64", SHOWN],
    "no key": ["%n99 = arith.constant 99 : i64", "%c = arith.cmpi sgt, %k, %n99 : i64", SHOWN],
}


@pytest.mark.parametrize("name", NOT)
def test_what_bounds_no_keys(name):
    assert bounds(*NOT[name]) is None


@pytest.mark.parametrize("unknown", ["", "apart"])
@pytest.mark.parametrize("seed", range(300))
def test_no_key_too_few(seed, unknown):
    mask = Mask(random.Random(seed))
    condition, holds = mask.condition(3)
    found = bounds(*mask.lines, f"%score = arith.select {condition}, %s, %never : f32", unknown=unknown)
    for row, spans in enumerate(found or ()):
        seen = {key for first, end in spans for key in range(first, end)}
        assert seen >= {key for key in range(KEYS) if holds(row, key)}


WEIGHT = ["%most = memref.load %buffer[%i] : memref<1xf32>"]
POWER = ["%gap = arith.subf %score, %most : f32", "%power = math.exp %gap : f32"]
GUARD = [
    "%inf = arith.constant 0x7F800000 : f32",
    "%none = arith.cmpf oeq, %most, %never : f32",
    "%guarded = arith.select %none, %inf, %most : f32",
    "%gap = arith.subf %score, %guarded : f32",
    "%power = math.exp %gap : f32",
]


@pytest.mark.parametrize("name", WRITTEN)
def test_weights_are_zero_where_each_row_has_a_key(name):
    """In a row without any exp(-inf - -inf) is NaN, as in eager, unless what is taken away is guarded."""
    lines, holds = WRITTEN[name]
    filled = all(any(holds(r, k) for k in range(KEYS)) for r in range(ROWS))
    assert (bounds(*lines, *WEIGHT, *POWER, value="%power", weight=True) is not None) == filled
    assert bounds(*lines, *WEIGHT, *GUARD, value="%power", weight=True) == bounds(*lines)


@pytest.mark.parametrize("seed", range(100))
def test_no_weight_is_left_out_of_a_row_without_keys(seed):
    mask = Mask(random.Random(seed))
    condition, holds = mask.condition(3)
    lines = [*mask.lines, f"%score = arith.select {condition}, %s, %never : f32"]
    if bounds(*lines, *WEIGHT, *POWER, value="%power", weight=True) is not None:
        assert all(any(holds(r, k) for k in range(KEYS)) for r in range(ROWS))


FEW = range(1, 20)
ALIKE = [(n, n) for n in FEW]


@pytest.mark.parametrize("unknown, pairs", [("alike", ALIKE), ("apart", [(r, k) for r in FEW for k in FEW])])
@pytest.mark.parametrize("seed", range(100))
def test_no_weight_is_left_out_whatever_the_sizes_are(seed, unknown, pairs):
    mask = Mask(random.Random(seed))
    condition, holds = mask.condition(3)
    lines = [*mask.lines, f"%score = arith.select {condition}, %s, %never : f32"]
    if bounds(*lines, *WEIGHT, *POWER, value="%power", weight=True, unknown=unknown) is not None:
        assert all(any(holds(r, k) for k in range(keys)) for rows, keys in pairs for r in range(rows))


def test_weights_of_sizes_that_are_not_known():
    """The first key is seen by all rows of a causal mask. That of the row's own number is there where keys are as many as rows."""
    from_row = ["%c = arith.cmpi slt, %k, %r : i64", HIDDEN]
    for lines, unknown, known in (
        (WRITTEN["causal"][0], "apart", True),
        (from_row, "alike", True),
        (from_row, "apart", False),
    ):
        found = bounds(*lines, *WEIGHT, *POWER, value="%power", weight=True, unknown=unknown)
        assert (found is not None) == known


def test_many_masks_bound_keys():
    """Or the property above says nothing."""
    found = 0
    for seed in range(100):
        mask = Mask(random.Random(seed))
        condition, _ = mask.condition(3)
        found += bounds(*mask.lines, f"%score = arith.select {condition}, %s, %never : f32") is not None
    assert found > 25
