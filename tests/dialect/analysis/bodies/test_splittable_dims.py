"""Which computes read statistics of groups of 3 channels, of 6, at a quotient of theirs."""

import pytest
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.splittable_dims import Quotients, Split
from bascule.dialect.ir.regions import ops_in

from tests.dialect.small_kernels import compute, extract, indexing_of, mlir, parse, reduce

__all__ = ["mlir"]

BYTES = 2 * 6 * 37 * 4  # of %x


def apply(name: str, map_: str, *indices: str) -> str:
    dims = ", ".join(f"d{number}" for number in range(len(indices)))
    return f"%{name} = affine.apply affine_map<({dims}) -> ({map_})>({', '.join(indices)})\n"


def extracts(name: str, tensor: str, at: str, shape: str) -> str:
    return extract(name, tensor, at, f"tensor<{shape}xf32>") + "\n"


def statistic(count: int = 6, size: int = 3, row: str = "d0 * 3 + d1") -> str:
    """%s[n, g] = the sum of x[n, row(g, c), k] over c < size and k < 37, of `count` channels."""
    read = apply("at", row, "%g", "%c") + extracts("%a", "%x", "%n, %at, %k", f"2x{count}x37")
    total = reduce("%t", "%c, %k", f"{size}, 37", read, "%a")
    groups = count // size
    return compute("%s", "%n, %g", f"2, {groups}", total, "%t", f"tensor<2x{groups}xf32>")


def scaled(count: int = 6, size: int = 3, others: str = "") -> str:
    """%y[n, c, k] = x[n, c, k] * s[n, c floordiv size]; `others` is read, too."""
    body = extracts("%a", "%x", "%n, %c, %k", f"2x{count}x37") + apply("q", f"d0 floordiv {size}", "%c")
    body += extracts("%b", "%s", "%n, %q", f"2x{count // size}") + others + "%z = arith.mulf %a, %b : f32"
    return compute("%y", "%n, %c, %k", f"2, {count}, 37", body, "%z", f"tensor<2x{count}x37xf32>")


def read_on(at: str, others: str = "") -> str:
    """%w[n, c, k] = y at `at`."""
    body = apply("m", "5 - d0", "%c") + others + extracts("%a", "%y", at, "2x6x37")
    return compute("%w", "%n, %c, %k", "2, 6, 37", body, "%a", "tensor<2x6x37xf32>")


def splits(*computes: str, least: int = 1, run: int = 1, count: int = 6) -> list[Split | None]:
    """How each compute of a graph is split; %x: 2xcountx37, %v: 7 elements."""
    lines = "\n".join(computes)
    module = parse(
        f"func.func @main(%x: tensor<2x{count}x37xf32>, %v: tensor<7xf32>) attributes {{bascule.graph}} {{\n{lines}\nreturn\n}}"
    )
    bodies = [Body(op) for op in ops_in(module.operation) if op.name == "bascule.compute"]
    found = Quotients({body.result: body for body in bodies}, indexing_of(bodies[0].op), least, run)
    return [found.split_of(body) for body in bodies]


def test_a_compute_that_reads_statistics_of_groups():
    assert splits(statistic(), scaled()) == [None, Split(1, 3)]
    # Read on by its three digits; as it comes.
    assert splits(statistic(), scaled(), read_on("%n, %c, %k")) == [None, Split(1, 3), None]


def test_groups_that_are_none():
    overlapping = statistic(row="d0 * 2 + d1")
    assert splits(overlapping, scaled()) == [None, None]
    pairs, read_in_threes = statistic(6, 2, "d0 * 2 + d1"), scaled().replace("tensor<2x2xf32>", "tensor<2x3xf32>")
    assert splits(pairs, scaled(6, 2)) == [None, Split(1, 2)]
    assert splits(pairs, read_in_threes) == [None, None]
    assert splits(statistic(7), scaled(7), count=7) == [None, None]  # the seventh channel is in none


@pytest.mark.parametrize(("size", "expected"), [(3, Split(1, 3)), (2, None)])
def test_a_remainder_that_is_left_of_the_two_indices(size, expected):
    other = apply("r", f"d0 mod {size}", "%c") + extracts("%o", "%v", "%r", "7")
    assert splits(statistic(), scaled(others=other))[1] == expected
    # In what reads the result, too.
    assert splits(statistic(), scaled(), read_on("%n, %c, %k", other))[1] == expected


def test_a_result_that_is_needed_whole():
    assert splits(statistic(), scaled(), read_on("%n, %m, %k"))[1] is None
    sums = reduce("%t", "%k", "37", extracts("%a", "%y", "%n, %c, %k", "2x6x37"), "%a")
    total = compute("%u", "%n, %c", "2, 6", sums, "%t", "tensor<2x6xf32>")
    assert splits(statistic(), scaled(), total)[1] is None
    t = "tensor<2x6x37xf32>"
    assert splits(statistic(), scaled(), f'"bascule.copy_into"(%y, %x) : ({t}, {t}) -> ()')[1] is None


def test_tensors_and_runs_in_memory_of_the_least_bytes():
    assert splits(statistic(), scaled(), least=BYTES) == [None, Split(1, 3)]
    assert splits(statistic(), scaled(), least=BYTES + 1) == [None, None]
    last = "#bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 222 + d1 + d2 * 6)>>"
    channels_last = scaled().replace("-> tensor<2x6x37xf32>", f"-> tensor<2x6x37xf32, {last}>")
    assert splits(statistic(), channels_last, run=3 * 4) == [None, Split(1, 3)]
    assert splits(statistic(), channels_last, run=3 * 4 + 1) == [None, None]
    assert splits(statistic(), scaled(), run=3 * 4 + 1) == [None, Split(1, 3)]


def test_only_what_reads_the_large_tensor_too_shares_its_rows():
    alone = extracts("%a", "%x", "%n, %c, %k", "2x6x37")
    unread = scaled().replace(alone, "%a = arith.constant 2.0 : f32\n")
    assert unread != scaled()
    assert splits(statistic(), unread) == [None, None]
