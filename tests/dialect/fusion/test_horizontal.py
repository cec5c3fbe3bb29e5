"""Kernels that do not depend on each other as one without ranges, a foreach each."""

from bascule.dialect.fusion.horizontal import joined, joining
from bascule.dialect.ir.functions import functions, graph_functions, kernel_op
from bascule.dialect.mlir import func, ir

from tests.dialect.small_kernels import mlir, parse

__all__ = ["mlir"]


def function(name: str, size: int, op: str) -> str:
    type_ = f"tensor<{size}xf32>"
    return f"""
func.func private @{name}(%x: {type_}) -> {type_} attributes {{bascule.operators = ["aten.{name}.default"]}} {{
  %out = bufferization.alloc_tensor() : {type_}
  "bascule.kernel"() ({{
  ^bb0(%i: index):
    %a = tensor.extract %x[%i] : {type_}
    %b = {op} %a : f32
    "bascule.store"(%b, %out, %i) : (f32, {type_}, index) -> ()
    "bascule.yield"() : () -> ()
  }}) {{ranges = affine_map<() -> ({size})>}} : () -> ()
  return %out : {type_}
}}"""


MODULE = f"""{function("exp", 7, "math.exp")}{function("neg", 13, "arith.negf")}{function("sin", 5, "math.sin")}
func.func @main(%x: tensor<7xf32>, %y: tensor<13xf32>) -> (tensor<7xf32>, tensor<13xf32>) attributes {{bascule.graph}} {{
  %a = call @exp(%x) : (tensor<7xf32>) -> tensor<7xf32>
  %b = call @neg(%y) : (tensor<13xf32>) -> tensor<13xf32>
  return %a, %b : tensor<7xf32>, tensor<13xf32>
}}"""


def names(module: ir.Module) -> list[str]:
    return [op.attributes["sym_name"].value for op in functions(module)]


def test_kernels_that_nothing_calls_go():
    module = parse(MODULE)
    with joining(module) as (_, kernels):
        assert list(kernels) == ["exp", "neg", "sin"]
    assert names(module) == ["exp", "neg", "main"]


def test_two_kernels_are_parallel_domains_of_one():
    module = parse(MODULE)
    (graph,) = graph_functions(module)
    first, second, _ = [view.operation for view in graph.regions[0].blocks[0].operations]
    with joining(module) as (table, kernels):
        types = [value.type for value in graph.regions[0].blocks[0].arguments]
        members = [(kernels["neg"], [1]), (kernels["exp"], [0])]
        name = joined(graph, table, members, ir.FunctionType.get(types, types[::-1]), "both")
        with ir.InsertionPoint(first):
            call = func.CallOp(types[::-1], name, list(graph.regions[0].blocks[0].arguments)).operation
        for old, new in zip((second, first), call.results):
            old.results[0].replace_all_uses_with(new)
            old.erase()
    assert names(module) == ["both", "main"]
    assert module.operation.verify()
    made = functions(module)[0]
    kernel = kernel_op(made)
    parts = [view.operation for view in kernel.regions[0].blocks[0].operations]
    assert [op.name for op in parts] == ["bascule.foreach", "bascule.foreach", "bascule.yield"]
    assert [str(op.attributes["ranges"].value.results[0]) for op in parts[:2]] == ["13", "7"]
    assert [text.value for text in made.attributes["bascule.operators"]] == ["aten.neg.default", "aten.exp.default"]


def test_a_name_that_is_taken_gets_another():
    module = parse(MODULE)
    (graph,) = graph_functions(module)
    with joining(module) as (table, kernels):
        tensor = ir.RankedTensorType.get([5], ir.F32Type.get())
        type_ = ir.FunctionType.get([tensor], [tensor])
        assert joined(graph, table, [(kernels["sin"], [0])], type_, "exp") != "exp"
