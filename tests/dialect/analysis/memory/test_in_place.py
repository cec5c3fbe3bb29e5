"""Which kernels may write a result over an operand."""

import pytest
from bascule.dialect.analysis.memory.in_place import InPlace
from bascule.dialect.ir.attributes import ScheduleAttr
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import foreach, kernel, load, mlir, reduce, scaled_rows, store

__all__ = ["mlir"]

T, SQUARE = "memref<7xf32>", "memref<31x31xf32>"
BACKWARD = "%p = affine.apply affine_map<(d0) -> (6 - d0)>(%i)"


def over(op, operand: int = 0, destination: int = 1) -> bool:
    return InPlace(op.parent.operation).allows(operand, destination)


def points(*body: str, at: str = "%i", sizes: str = "7", x: str = T, y: str = T) -> bool:
    """Whether y may be written over x."""
    return over(kernel(f"%x: {x}, %y: {y}", at, sizes, *body))


READ, WRITTEN = load("%a", "%x", "%i", T), store("%a", "%y", "%i", T)


@pytest.mark.parametrize(
    "body, allowed",
    [
        ((READ, WRITTEN), True),
        ((BACKWARD, load("%a", "%x", "%p", T), WRITTEN), False),  # another point has written there
        ((READ, WRITTEN, load("%b", "%x", "%i", T)), False),  # read again afterwards
        ((READ, load("%b", "%y", "%i", T), WRITTEN), False),  # the old contents of y
        ((READ, store("%a", "%x", "%i", T), WRITTEN), False),  # x is a result itself
        ((READ, WRITTEN, BACKWARD, store("%a", "%y", "%p", T)), False),  # two stores
        ((READ, WRITTEN.replace(" : (", ' {mode = "add"} : (')), False),  # added to what is there
        (("%a = arith.constant 3.0 : f32", WRITTEN), True),  # x is not read
    ],
)
def test_elements_at_one_index(body, allowed):
    assert points(*body) is allowed


@pytest.mark.parametrize("times, allowed", [(1, True), (2, False)])
def test_no_two_points_write_one_place(times, allowed):
    assert points(READ, WRITTEN, at="%i, %j", sizes=f"7, {times}") is allowed


def test_a_row_is_read_before_it_is_overwritten():
    assert over(scaled_rows(7, 31))
    total = reduce("%s", "%k", "31", load("%a", "%x", "%k, %i", SQUARE), "%a")  # of a column
    rows = foreach("%k", "31", store("%s", "%y", "%i, %k", SQUARE))
    assert not points(total, rows, sizes="31", x=SQUARE, y=SQUARE)


LAST, TURNED, FLAT = "%i, %k", "%i, %p", "%q"
BACK = "%p = affine.apply affine_map<(d0) -> (30 - d0)>(%k)"


@pytest.mark.parametrize(
    "walks, at, allowed",
    [
        ((0, 1, 2), LAST, True),
        ((0, 1, 0), LAST, False),  # the store goes along with the first loop, and the second reads what it left
        ((0, 0, 0), LAST, True),  # element by element
        ((0, 0, 2), TURNED, True),
        ((0, 0, 0), TURNED, False),  # a later step reads what an earlier one has stored
        ((0, 1, 1), TURNED, False),
        ((), TURNED, True),  # as they stand
    ],
)
@pytest.mark.parametrize("y", [SQUARE, "memref<961xf32>"])
def test_loops_run_where_their_walk_does(walks, at, allowed, y):
    """Three loops over a row of x, the last of which stores to y."""
    sums = [reduce(name, "%k", "31", "\n".join((BACK, load("%a", "%x", at, SQUARE))), "%a") for name in ("%s", "%t")]
    flat = "%q = affine.apply affine_map<(d0, d1) -> (d0 * 31 + d1)>(%i, %k)"
    row = "\n".join((flat, load("%a", "%x", LAST, SQUARE), store("%a", "%y", LAST if y == SQUARE else FLAT, y)))
    op = kernel(f"%x: {SQUARE}, %y: {y}", "%i", "31", *sums, foreach("%k", "31", row))
    if walks:
        loops = ", ".join(f"{{walk = {walk} : i64}}" for walk in walks)
        op.attributes["schedule"] = ScheduleAttr.get(ir.DictAttr(ir.Attribute.parse(f"{{loops = [{loops}]}}")))
    assert over(op) is (allowed and (y == SQUARE or at == LAST))  # in another shape a row is compared as it runs


@pytest.mark.parametrize(
    "x, columns, allowed",
    [
        ("memref<7x31xf32>", 31, True),
        ("memref<8x31xf32>", 31, False),  # of another length
        ("memref<31x7xf32>", 31, False),  # other elements lie there
        ("memref<31x7xf32>", 7, True),
        ("memref<7x31xf32, affine_map<(d0, d1) -> (d0 * 32 + d1)>>", 31, False),  # not dense
        ("memref<7x31xi32>", 31, False),
    ],
)
def test_another_shape_of_the_same_elements(x, columns, allowed):
    flat = "memref<217xf32>"
    places = (
        f"%q = affine.apply affine_map<(d0) -> (d0 floordiv {columns})>(%i)",
        f"%r = affine.apply affine_map<(d0) -> (d0 mod {columns})>(%i)",
    )
    element = "arith.sitofp %a : i32 to f32" if "i32" in x else "arith.negf %a : f32"
    body = (load("%a", "%x", "%q, %r", x), f"%b = {element}", store("%b", "%y", "%i", flat))
    assert points(*places, *body, sizes="217", x=x, y=flat) is allowed


@pytest.mark.parametrize("size, allowed", [("s0", True), ("s0 + 1", False)])
def test_equal_types_of_unknown_sizes(size, allowed):
    shapes = [f"{{bascule.shape = affine_map<()[s0] -> ({n})>}}" for n in ("s0", size)]
    t = "memref<?xf32>"
    body = load("%a", "%x", "%i", t), store("%a", "%y", "%i", t)
    assert over(kernel(f"%n: index, %x: {t} {shapes[0]}, %y: {t} {shapes[1]}", "%i", "s0", *body), 1, 2) is allowed
