"""When buffers are made, first written, last read and freed; times are counted by hand."""

from bascule.dialect.analysis.memory.liveness import Buffer, buffers_of
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import mlir, parse, top_ops

__all__ = ["mlir"]

T = "memref<7xf32>"
VIEW = "{map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (7)>}"


def extern(name: str, operator: str, results: int = 1) -> str:
    attributes = f'bascule.extern = "{operator}", bascule.arguments = [#bascule.operand<0>]'
    return f"func.func private @{name}({T}) -> {T} attributes {{{attributes}, bascule.results = array<i64: 0>}}"


def buffers(*body: str, returned: str = "%x") -> list[Buffer]:
    """Those of a graph with these ops, number 0 first."""
    lines = "\n".join(body)
    graph = f"func.func @main(%x: {T}) -> {T} attributes {{bascule.graph}} {{\n{lines}\nreturn {returned} : {T}\n}}"
    known = extern("sin", "aten.sin.default"), extern("user", "mylib.op.default"), f"func.func private @k({T}, {T})"
    module = parse("\n".join((*known, graph)))
    (function,) = graph_functions(module)
    return buffers_of(top_ops(function), ir.SymbolTable(module.operation))


def call(*operands: str) -> str:
    return f"call @k({', '.join(operands)}) : ({T}, {T}) -> ()"


def test_an_allocation_lives_until_it_is_freed():
    a, b = buffers(
        f"%a = memref.alloc() : {T}",
        f"%b = memref.alloc() : {T}",
        call("%x", "%a"),
        call("%a", "%b"),
        f"memref.dealloc %a : {T}",
        call("%x", "%b"),
        f"memref.dealloc %b : {T}",
    )
    assert (a.first, a.written, a.read, a.last, len(a.frees)) == (0, 2, 3, 4, 1)
    assert (b.first, b.written, b.read, b.last, len(b.frees)) == (1, 3, 5, 6, 1)
    assert not (a.escapes or b.escapes) and a.allocated


def test_a_view_is_the_same_buffer():
    (a,) = buffers(
        f"%a = memref.alloc() : {T}",
        f'%v = "bascule.view"(%a) {VIEW} : ({T}) -> {T}',
        f'%w = "bascule.view"(%v) {VIEW} : ({T}) -> {T}',
        call("%x", "%v"),
        returned="%w",
    )
    assert (a.first, a.written, a.read, a.last) == (0, 3, 4, 5)  # to view it is no use of it
    assert a.escapes


def test_what_is_never_used_is_never_written():
    (a,) = buffers(f"%a = memref.alloc() : {T}")
    assert (a.first, a.written, a.read, a.last, a.escapes) == (0, -1, -1, 2, False)


def test_results_of_operators_of_torch_are_their_own():
    (a,) = buffers(
        f"%u = call @user(%x) : ({T}) -> {T}",
        f"%a = call @sin(%u) : ({T}) -> {T}",
        call("%u", "%a"),
        f"memref.dealloc %a : {T}",
    )
    assert (a.first, a.written, a.read, a.last, a.allocated) == (1, 1, 2, 3, False)  # made and written at once
