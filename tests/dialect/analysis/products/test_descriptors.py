"""Tensor descriptors of places in memory: which there are, and why there is none."""

import re

import pytest
from bascule.dialect.analysis.affine.linear_forms import linear
from bascule.dialect.analysis.products.descriptors import descriptor_of
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import mlir

__all__ = ["mlir"]

# d0, d1: of the batch; d2, d3: rows; d4, d5: summed; d6: data.
SIZES = dict(enumerate((6, 4, 5, 24, 3, 64)))
RUNS = [[0], [1], [2, 3], [4, 5]]


def at(text, width=2, sizes=SIZES):
    map_ = ir.Attribute.parse(f"affine_map<(d0, d1, d2, d3, d4, d5, d6)[s0, s1] -> ({text})>").value
    return descriptor_of(linear(map_.results[0]), RUNS, sizes, width)


ROWS, SUMMED = "d2 * 4608 + d3 * 192", "d4 * 64 + d5"


@pytest.mark.parametrize(
    ("text", "start", "sizes", "strides", "transposed"),
    [
        (f"{ROWS} + {SUMMED}", 0, (120, 192), (192, 1), False),
        (f"{ROWS} + {SUMMED} + 8", 8, (120, 192), (192, 1), False),
        ("d2 * 24 + d3 + d4 * 7680 + d5 * 120", 0, (192, 120), (120, 1), True),
        (f"{ROWS} + {SUMMED} + d0 * 32 + d1 * 90000", 0, (6, 4, 120, 192), (32, 90000, 192, 1), False),
        (f"{ROWS} + {SUMMED} + (d0 floordiv 2) * 32", 0, (3, 120, 192), (32, 192, 1), False),
        (
            f"{ROWS} + {SUMMED} + (d0 floordiv 2) * 32 + (d0 mod 2) * 64",
            0,
            (3, 2, 120, 192),
            (32, 64, 192, 1),
            False,
        ),
    ],
)
def test_matrices(mlir, text, start, sizes, strides, transposed):
    found = at(text)
    assert (found.start, found.is_transposed) == (start, transposed)
    assert sorted((dim.size, dim.stride) for dim in found.dims) == sorted(zip(sizes, strides))
    assert [dim.size for dim in found.dims[-2:]] == list(sizes[-2:])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{ROWS} + {SUMMED} + 4", "it begins at no multiple of 16 bytes"),
        (f"{ROWS} + {SUMMED} - 8", "it begins at no multiple of 16 bytes"),
        (f"{ROWS} + {SUMMED} + s0", "it begins anywhere"),
        (f"{ROWS} + {SUMMED} + d6 * 8", "comes from data"),
        (f"{ROWS} + d5 * 2 + d4 * 128", "memory runs neither along its rows nor along what is summed"),
        ("d2 * 4632 + d3 * 193 + d4 * 64 + d5", r"its strides are \[386\] bytes"),
        ("d2 * -4608 + d3 * -192 + d4 * 64 + d5 + 24000", r"its strides are \[-384\] bytes"),
        (f"{ROWS} + {SUMMED} + d0 * 4", r"its strides are \[8, 384\] bytes"),
        (f"{ROWS} + {SUMMED} + d0 * s0", r"its strides are \[s0 \* 2, 384\] bytes"),
        (f"{ROWS} + {SUMMED} + d0 * (s0 * 8 + 4)", "no multiples of 16"),
        (f"{ROWS} + {SUMMED} + d0 * ((s0 floordiv 2) * 8)", "its sizes or strides are quotients"),
        (f"d2 * 9216 + d3 * 192 + {SUMMED}", "no matrix at each point of the batch"),
        (f"{ROWS} + d4 * 128 + d5", "no matrix at each point of the batch"),
        (f"{ROWS} + {SUMMED} + (d3 floordiv 2) * 8", "no matrix at each point of the batch"),
        (f"{ROWS} + {SUMMED} + (d6 mod 2) * 8", "no matrix at each point of the batch"),
        (f"{ROWS} + {SUMMED} + (d0 floordiv s0) * 8", "no matrix at each point of the batch"),
        (
            f"{ROWS} + {SUMMED} + (d0 floordiv 2) * 8 + (d0 mod 2) * 64 + (d1 floordiv 2) * 32 + (d1 mod 2) * 64",
            "it has more than 5 dims",
        ),
    ],
)
def test_what_is_none(mlir, text, reason):
    assert re.search(reason, at(text))


@pytest.mark.parametrize(
    ("text", "sizes", "strides"),
    [
        (f"{ROWS} + {SUMMED} + d0 * (s0 * 8)", ["6", "120", "192"], ["s0 * 8", "192", "1"]),
        (f"{ROWS} + {SUMMED} + d0 * (s0 * 64 + 24)", ["6", "120", "192"], ["s0 * 64 + 24", "192", "1"]),
        ("d2 * 192 + d4 * 64 + d5 + d0 * (s0 * 192)", ["6", "s0", "192"], ["s0 * 192", "192", "1"]),
        ("d2 * 192 + d4 * 64 + d5 + d0 * (s0 * s1 * 192)", ["6", "s0", "192"], ["(s0 * s1) * 192", "192", "1"]),
        ("d2 + d5 * 120 + d4 * 7680", ["192", "s0"], ["120", "1"]),
    ],
)
def test_sizes_and_strides_that_are_symbols(mlir, text, sizes, strides):
    found = at(text, sizes=SIZES | {2: ir.AffineSymbolExpr.get(0), 3: 1} if "d3" not in text else SIZES)
    assert ([str(dim.size) for dim in found.dims], [str(dim.stride) for dim in found.dims]) == (sizes, strides)


def test_elements_of_other_widths(mlir):
    assert at(f"{ROWS} + {SUMMED}", width=8) == "its elements have 8 bytes"
