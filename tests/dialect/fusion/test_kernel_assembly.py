"""A group as the region of a kernel: loops in the order of the members, rows kept where they are costly, what is fixed before its loop."""

import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir

from tests.dialect.fusion.written_kernels import written
from tests.dialect.small_kernels import compute, extract, graph, mlir, module_of, reduce

__all__ = ["mlir"]

X, V = "tensor<7x13xf32>", "tensor<7xf32>"


def names(ops: list[ir.Operation]) -> list[str]:
    return [op.name.removeprefix("bascule.") for op in ops]


def scaled() -> ir.Module:
    """z[i, j] = x[i, j] * exp(the sum of x[i, :])."""
    total = reduce("%s", "%k", "13", extract("%a", "%x", "%i, %k", X), "%a")
    body = (
        extract("%a", "%x", "%i, %j", X),
        extract("%b", "%y", "%i", V),
        "%c = math.exp %b : f32",
        "%d = arith.mulf %a, %c : f32",
    )
    sums, product = compute("%y", "%i", "7", total, "%s", V), compute("%z", "%i, %j", "7, 13", "\n".join(body), "%d", X)
    return module_of(graph(f"%x: {X}", X, "%z", sums, product))


def test_a_row_value_is_computed_before_the_loop_over_the_row():
    module = scaled()
    ops = written(module, 1)
    assert names(ops) == ["reduce", "math.exp", "foreach", "yield"]
    assert [str(op.attributes["ranges"].value.results[0]) for op in (ops[0], ops[2])] == ["13", "13"]
    x = torch.randint(-2, 3, (7, 13)).float()
    (result,) = interpret(module, [x])
    torch.testing.assert_close(result, x * x.sum(1, keepdim=True).exp())


def test_what_nothing_outside_uses_is_not_stored():
    stores = [op for op in written(scaled(), 1) for inner in ops_in(op) if inner.name == "bascule.store"]
    assert names(stores) == ["foreach"]
    assert "store" in names(written(scaled(), 1, (0, 1)))


def softmax(size: int) -> ir.Module:
    """p = exp(x); z = p over the sum of its row."""
    x, v = f"tensor<7x{size}xf32>", V
    powers = compute(
        "%p", "%i, %j", f"7, {size}", extract("%a", "%x", "%i, %j", x) + "\n%b = math.exp %a : f32", "%b", x
    )
    sums = compute("%y", "%i", "7", reduce("%s", "%k", f"{size}", extract("%a", "%p", "%i, %k", x), "%a"), "%s", v)
    body = (extract("%a", "%p", "%i, %j", x), extract("%b", "%y", "%i", v), "%c = arith.divf %a, %b : f32")
    divided = compute("%z", "%i, %j", f"7, {size}", "\n".join(body), "%c", x)
    return module_of(graph(f"%x: {x}", x, "%z", powers, sums, divided))


def test_a_costly_row_is_kept_if_it_is_small():
    kept = written(softmax(16_384), 1)  # 64 KiB
    assert names(kept)[:3] == ["compute", "reduce", "foreach"]
    again = written(softmax(16_385), 1)
    assert names(again)[:2] == ["reduce", "foreach"]
    assert [sum(inner.name == "math.exp" for op in ops for inner in ops_in(op)) for ops in (kept, again)] == [1, 2]
