"""Results of calls that are made in an argument, or in the memory of what they start from."""

import pytest
from bascule.dialect.analysis.memory.destinations import Destination, Destinations, KernelCalls
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import kernel, load, mlir, parse, store, top_ops

__all__ = ["mlir"]

T, M, SPARSE = "tensor<7xf32>", "memref<7xf32>", "tensor<7xf32, #bascule.layout<affine_map<(d0) -> (d0 * 2)>>>"
VIEW = "{map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (7)>}"
ATEN = "bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>"
KNOWN = (
    f"func.func private @same({T}) -> {T}",
    f"func.func private @turned({T}) -> {T}",
    f"func.func private @put({T}, {T}) -> {T}",
    f'func.func private @sin({T}) -> {T} attributes {{bascule.extern = "aten.sin.default", {ATEN}}}',
    f'func.func private @cos({T}) -> {T} attributes {{bascule.extern = "aten.cos.default", bascule.out = "aten.cos.out", {ATEN}}}',
)


def kernels() -> dict[str, KernelCalls]:
    """@same reads each element where it writes, @turned does not; @put starts from operand 0, which it does not take."""
    same = load("%a", "%x", "%i", M), store("%a", "%y", "%i", M)
    turned = "%p = affine.apply affine_map<(d0) -> (6 - d0)>(%i)", load("%a", "%x", "%p", M), same[1]
    functions = [kernel(f"%x: {M}, %y: {M}", "%i", "7", *body).parent.operation for body in (same, turned, same)]
    kept, inits, type_ = ([0], [0], [1]), (None, None, 0), ir.Type.parse(M)
    made = [[Destination(type_, [expr(7)], init)] for init in inits]
    return dict(zip(("same", "turned", "put"), map(KernelCalls, functions, kept, made)))


def call(name: str, callee: str, *operands: str) -> str:
    return f"{name} = call @{callee}({', '.join(operands)}) : ({', '.join([T] * len(operands))}) -> {T}"


def copy(value: str, dest: str, type_: str = T) -> str:
    return f'"bascule.copy_into"({value}, {dest}) : ({T}, {type_}) -> ()'


def given(*body: str, returned: str = "%x") -> dict[str, str]:
    """Result -> the value in whose memory it is made, of a graph with these ops."""
    lines = "\n".join((*body, f"return {returned} : {T}"))
    graph = f"func.func @main(%x: {T}, %d: {T}, %e: {SPARSE}) -> {T} attributes {{bascule.graph}} {{\n{lines}\n}}"
    module = parse("\n".join((*KNOWN, graph)))
    (function,) = graph_functions(module)
    found = Destinations(top_ops(function), ir.SymbolTable(module.operation), kernels())
    assert len(found.done) == sum(isinstance(dest.owner, ir.Block) for dest in found.given.values())
    arguments = dict(zip(function.regions[0].blocks[0].arguments, ("%x", "%d", "%e")))
    return {result.get_name(): arguments.get(dest) or dest.get_name() for result, dest in found.given.items()}


@pytest.mark.parametrize("callee, takes", [("same", True), ("turned", True), ("cos", True), ("sin", False)])
def test_a_result_that_is_copied_to_an_argument_is_made_there(callee, takes):
    assert given(call("%0", callee, "%x"), copy("%0", "%d")) == ({"%0": "%d"} if takes else {})


@pytest.mark.parametrize("callee, allowed", [("same", True), ("turned", False), ("cos", False)])
def test_the_call_that_reads_the_argument_may_write_it_in_place(callee, allowed):
    assert given(call("%0", callee, "%d"), copy("%0", "%d")) == ({"%0": "%d"} if allowed else {})


@pytest.mark.parametrize(
    "body, returned",
    [
        ((call("%0", "same", "%x"), call("%1", "same", "%d"), copy("%0", "%d")), "%1"),  # old contents are read
        ((call("%0", "same", "%x"), copy("%0", "%d")), "%0"),
        ((call("%0", "same", "%x"), copy("%0", "%e", SPARSE)), "%x"),  # another layout
        ((copy("%x", "%d"),), "%x"),  # nothing makes it
    ],
)
def test_what_is_copied(body, returned):
    assert given(*body, returned=returned) == {}


def test_old_contents_may_be_read_before():
    body = call("%0", "same", "%d"), call("%1", "same", "%x"), copy("%1", "%d")
    assert given(*body, returned="%0") == {"%1": "%d"}


def test_a_result_starts_from_what_nothing_else_needs():
    made, put = call("%0", "same", "%x"), call("%1", "put", "%0", "%x")
    view = f'%2 = "bascule.view"(%0) {VIEW} : ({T}) -> {T}'
    assert given(made, put, returned="%1") == {"%1": "%0"}
    assert given(made, put, returned="%0") == {}
    assert given(made, put, view, returned="%2") == {}  # seen through a view
    assert given(call("%0", "put", "%x", "%d"), returned="%0") == {}  # an argument stays as it is
    assert given(call("%0", "put", "%d", "%x"), copy("%0", "%d")) == {"%0": "%d"}
