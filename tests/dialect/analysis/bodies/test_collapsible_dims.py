"""Computes that walk the same rows by one index, of 35, and by two, of 5x7."""

import pytest
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.body_tree import indices_of
from bascule.dialect.analysis.bodies.collapsible_dims import Walker, fold_sizes, to_collapse, with_folds
from bascule.dialect.ir.regions import ops_in

from tests.dialect.small_kernels import compute, extract, indexing_of, mlir, parse, reduce

__all__ = ["mlir"]

FLAT, GRID, ROW, N = "tensor<35xf32>", "tensor<5x7xf32>", "tensor<7xf32>", "tensor<5xindex>"
AT = "%at = affine.apply affine_map<(d0, d1) -> (d0 * 7 + d1)>(%i, %j)\n"
READ = AT + extract("%a", "%x", "%at", FLAT)


def flat(name: str, size: str = "35") -> str:
    """x, by one index."""
    return compute(name, "%m", size, extract("%a", "%x", "%m", FLAT), "%a", f"tensor<{size}xf32>")


def grid(name: str, body: str = READ, sizes: str = "5, 7") -> str:
    """%a of `body`, by two indices %i and %j."""
    return compute(name, "%i, %j", sizes, body, "%a", f"tensor<{sizes.replace(', ', 'x')}xf32>")


def bodies_of(*computes: str) -> list[Body]:
    """Those of the computes of a graph, over %x, 35 elements, %p, 7, and %n, 5 indices."""
    lines = "\n".join(computes)
    module = parse(
        f"func.func @main(%x: {FLAT}, %p: {ROW}, %n: {N}) attributes {{bascule.graph}} {{\n{lines}\nreturn\n}}"
    )
    return [Body(op) for op in ops_in(module.operation) if op.name == "bascule.compute"]


def collapsed(*computes: str, fixed: int | None = None) -> dict[tuple[int, int], list[int]]:
    """Fold -> the numbers of the computes to collapse; the result of `fixed` may not move."""
    bodies = bodies_of(*computes)
    indexing = indexing_of(bodies[0].op)
    walkers = [Walker(body, indexing) for body in bodies]
    found = to_collapse(walkers, {body.result for number, body in enumerate(bodies) if number != fixed})
    for walker, pairs in (chosen for group in found.values() for chosen in group):
        assert pairs == [tuple(indices_of(walker.body.op))]
    return {fold: [walkers.index(walker) for walker, _ in group] for fold, group in found.items()}


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("35", "5, 7", [0, 1]),
        ("35", "7, 5", [0, 1]),
        ("36", "5, 7", []),
        ("34", "5, 7", []),
        ("35", "1, 35", []),
        ("0", "0, 7", []),
    ],
)
def test_sizes_that_make_a_fold(one, two, expected):
    bodies = bodies_of(flat("%one", one), grid("%two", sizes=two))
    assert [bodies.index(body) for body in with_folds(bodies, fold_sizes(bodies))] == expected


def test_computes_of_rows_that_another_walks_by_one_index():
    following = grid("%next", extract("%a", "%two", "%i, %j", GRID))
    assert collapsed(flat("%one"), grid("%two"), following) == {(5, 7): [1, 2]}
    assert collapsed(grid("%two"), following) == {}
    assert collapsed(flat("%one"), grid("%two"), fixed=1) == {}
    # In rows of 8 apart nothing walks by one index.
    assert collapsed(flat("%one"), grid("%two", READ.replace("d0 * 7", "d0 * 8"))) == {}


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("%in = arith.cmpi slt, %at, %ten : index", {(5, 7): [1]}),
        ("%in = arith.cmpi slt, %j, %ten : index", {}),
        (extract("%b", "%p", "%j", ROW), {}),
        (extract("%b", "%n", "%i", N), {}),
        ("%h = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%at)\n" + extract("%b", "%x", "%h", FLAT), {}),
    ],
)
def test_what_else_is_made_of_the_two_indices(use, expected):
    body = f"%ten = arith.constant 10 : index\n{READ}\n{use}"
    assert collapsed(flat("%one"), grid("%two", body)) == expected


def test_as_many_bytes_parted_as_brought_together_are_no_gain():
    kept = grid("%kept", f"{READ}\n{extract('%b', '%p', '%j', ROW)}")
    assert collapsed(flat("%one"), grid("%two"), kept) == {}
    # What reads the result of a compute that stays parts that alone.
    following = grid("%next", f"{extract('%a', '%two', '%i, %j', GRID)}\n{extract('%b', '%p', '%j', ROW)}")
    assert collapsed(flat("%one"), grid("%two"), following) == {}
    both = compute("%both", "%m", "35", extract("%a", "%y", "%m", FLAT), "%a", FLAT)
    more = grid("%two", f"{READ}\n{extract('%b', '%y', '%at', FLAT)}")
    made = compute("%y", "%m", "35", "%a = arith.constant 1.0 : f32", "%a", FLAT)
    assert collapsed(made, both, flat("%one"), more, following) == {(5, 7): [3]}


def test_a_reduction_by_one_index_gains_nothing():
    total = reduce("%s", "%m", "35", extract("%a", "%x", "%m", FLAT), "%a")
    assert collapsed(compute("%one", "", "", total, "%s", "tensor<f32>"), grid("%two")) == {}
