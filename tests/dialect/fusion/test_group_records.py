"""Groups of members: the rows of what they read, fewer rows, how large their kernels are, and how a refusal reads."""

import json
import random

import pytest
from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.fusion.group_records import Group, WrittenOps, not_fused
from bascule.dialect.fusion.members import Digits, Member
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.dialect.remarks.record import Remark

from tests.dialect.fusion.written_kernels import written
from tests.dialect.small_kernels import compute, extract, graph, mlir, module_of, reduce, top_ops

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "cost, amount", [(999, "999 bytes"), (99_949, "99.9 kB"), (100_000, "0.1 MB"), (7_000_001, "7.0 MB")]
)
def test_a_refusal_tells_its_ops_and_its_cost(cost, amount):
    x = "tensor<7x13xf32>"
    rows = compute("%y", "%i, %j", "7, 13", extract("%a", "%x", "%i, %j", x), "%a", x)
    again = compute("%z", "%i, %j", "7, 13", extract("%a", "%y", "%i, %j", x), "%a", x)
    first, second = top_ops(graph(f"%x: {x}", x, "%z", rows, again))[:2]
    refusal = not_fused(second, first, "reads it at other rows", cost)
    names = "bascule.compute (-:", "not fused with bascule.compute (-:"
    assert all(name in str(refusal) for name in names) and refusal.op.source != refusal.partner.source
    assert str(refusal).endswith(f": reads it at other rows; {amount} more memory traffic")
    assert Remark.from_json(json.loads(json.dumps(refusal.to_json()))) == refusal


def test_rows_of_what_a_group_reads():
    x, y = "tensor<7x13xf32>", "tensor<13x7xf32>"
    function = graph(f"%x: {x}", y, "%y", compute("%y", "%i, %j", "13, 7", extract("%a", "%x", "%j, %i", x), "%a", y))
    op = top_ops(function)[0]
    member = Member.of(0, Body(op), Indexing([], Simplifier()))
    group = Group(3, list(member.sizes), [member])
    group.note_reads(member)
    (tensor,) = group.reads
    assert group.reads[tensor] == (Digits((1,)), Digits((0,)))
    assert not group.reduces
    group.narrow([1])  # keeps the row of 7
    assert ([str(size) for size in group.rows], member.row_dims, member.inner_dims) == (["7"], (1,), (0,))
    assert group.reads[tensor] == (Digits((0,)), Digits())
    group.narrow([])
    assert (group.rows, group.reads[tensor]) == ([], (Digits(), Digits()))


def test_a_group_reduces_if_one_member_does():
    x, y = "tensor<7x13xf32>", "tensor<7xf32>"
    total = reduce("%s", "%k", "13", extract("%a", "%x", "%i, %k", x), "%a")
    function = graph(f"%x: {x}", y, "%y", compute("%y", "%i", "7", total, "%s", y))
    member = Member.of(0, Body(top_ops(function)[0]), Indexing([], Simplifier()))
    assert Group(0, list(member.sizes), [member]).reduces
    assert not Group(0, []).reduces


MATRIX, ROW = "tensor<4x9xf32>", "tensor<4xf32>"
PLACES = [f"%c{n} = arith.constant {n} : index" for n in range(9)]


def read_of(draw: random.Random, name: str, source: str, type_: str) -> str:
    """A value that some reads of a matrix or a row give: at the reader's own point, at others, in a loop, under a condition."""
    if type_ == ROW:
        return extract(name, source, "%i", ROW)
    at = draw.choice(["%i, %j", f"%i, %c{draw.randrange(9)}", f"%c{draw.randrange(4)}, %j"])
    kind = draw.choice(["plain", "plain", "loop", "condition"])
    if kind == "loop":
        return reduce(name, "%k", "9", extract(f"{name}k", source, "%i, %k", MATRIX), f"{name}k")
    if kind == "plain":
        return extract(name, source, at, MATRIX)
    sides = [
        f"{extract(name + side, source, place, MATRIX)}\nscf.yield {name}{side} : f32"
        for side, place in (("t", at), ("e", "%i, %j"))
    ]
    return f"{name}c = arith.cmpi eq, %j, %c3 : index\n{name} = scf.if {name}c -> (f32) {{\n{sides[0]}\n}} else {{\n{sides[1]}\n}}"


def chain(seed: int, length: int) -> ir.Operation:
    """A graph of computes over rows and matrices, each of which reads several before it."""
    draw, lines, known = random.Random(seed), list(PLACES), [("%x", MATRIX)]
    for n in range(length):
        sources = [known[-1], *draw.sample(known, k=min(len(known), draw.randrange(3)))]
        if draw.random() < 0.3:  # a row
            reads = [
                reduce(f"%v{k}", "%k", "9", extract(f"%v{k}k", s, "%i" if t == ROW else "%i, %k", t), f"%v{k}k")
                for k, (s, t) in enumerate(sources)
            ]
            at, sizes, type_ = "%i", "4", ROW
        else:
            reads = [read_of(draw, f"%v{k}", s, t) for k, (s, t) in enumerate(sources)]
            at, sizes, type_ = "%i, %j", "4, 9", MATRIX
        sums = [f"%s{k} = arith.addf {f'%s{k - 1}' if k else '%v0'}, %v{k} : f32" for k in range(len(reads))]
        lines.append(compute(f"%y{n}", at, sizes, "\n".join(reads + sums), f"%s{len(sums) - 1}", type_))
        known.append((f"%y{n}", type_))
    return graph(f"%x: {MATRIX}", known[-1][1], known[-1][0], *lines)


def size_of(ops) -> int:
    """Ops that compute, read and store, loops and conditions."""
    return sum(op.name not in ("arith.constant", "affine.apply", "bascule.yield", "scf.yield") for op in ops)


@pytest.mark.parametrize("seed", range(40))
def test_a_kernel_is_no_larger_than_told(seed):
    function = chain(seed, 2 + seed % 6)
    computes = [op for op in top_ops(function) if op.name == "bascule.compute"]
    indexing = Indexing([], Simplifier())
    members = [Member.of(number, Body(op), indexing) for number, op in enumerate(computes)]
    told = WrittenOps((member, (0,)) for member in members).ops
    made = [inner for op in written(module_of(function), 1) for inner in ops_in(op)]
    assert size_of(made) <= told + 2  # the store, and the loop that it is in


def test_what_is_read_at_the_own_point_is_not_counted_again():
    lines = [
        compute(
            f"%y{n}",
            "%i, %j",
            "4, 9",
            f"{extract('%a', f'%y{n - 1}' if n else '%x', '%i, %j', MATRIX)}\n%b = arith.addf %a, %a : f32",
            "%b",
            MATRIX,
        )
        for n in range(8)
    ]
    computes = top_ops(graph(f"%x: {MATRIX}", MATRIX, "%y7", *lines))[:-1]
    members = [Member.of(number, Body(op), Indexing([], Simplifier())) for number, op in enumerate(computes)]
    for rows in ((0, 1), (0,)):
        assert WrittenOps((member, rows) for member in members).ops == sum(member.body.ops for member in members)


def step(n: int) -> str:
    """A matrix with a column written, by a number and two columns of the matrix before."""
    source, column = f"%y{n - 1}" if n else "%x", n % 9
    reads = [extract(f"%r{k}", source, f"%i, %c{(column - k) % 9}", MATRIX) for k in (1, 2)]
    lines = [
        f"%p = arith.cmpi eq, %j, %c{column} : index",
        "%v = scf.if %p -> (f32) {",
        *reads,
        extract("%s", "%n", "", "tensor<f32>"),
        "%m = arith.mulf %r1, %s : f32",
        "%d = arith.addf %m, %r2 : f32",
        "scf.yield %d : f32\n} else {",
        extract("%e", source, "%i, %j", MATRIX),
        "scf.yield %e : f32\n}",
    ]
    return compute(f"%y{n}", "%i, %j", "4, 9", "\n".join(lines), "%v", MATRIX)


@pytest.mark.parametrize("steps", [8, 40])
def test_a_recurrence_over_columns_becomes_kernels_of_bounded_size(steps):
    """All steps in one kernel would have three times as many ops for each more."""
    number = compute(
        "%n", "", "", f"{extract('%a', '%x', '%c0, %c0', MATRIX)}\n%b = math.exp %a : f32", "%b", "tensor<f32>"
    )
    lines = [*PLACES, number, *map(step, range(steps))]
    module = module_of(graph(f"%x: {MATRIX}", MATRIX, f"%y{steps - 1}", *lines))
    Pipeline.parse("form-kernels").run(module)
    kernels = [op for function in functions(module) if (op := kernel_op(function)) is not None]
    assert len(kernels) > 1
    assert max(size_of(ops_in(kernel)) for kernel in kernels) <= 1500
