"""Kernel functions: what a kernel captures is an argument, equal ones are one, and a name says what is computed."""

import pytest
from bascule.dialect.fusion.kernel_functions import KernelFunctions, _stem
from bascule.dialect.ir.functions import functions, graph_functions
from bascule.dialect.mlir import ir

from tests.dialect.fusion.written_kernels import written
from tests.dialect.small_kernels import compute, extract, graph, mlir, module_of, parse

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "operators, stem",
    [
        (["aten.view.default", "aten.add.Tensor", "aten.mul.Tensor", "aten.add.Tensor"], "add_mul"),
        (["aten.view.default", "aten._to_copy.default"], "view_to_copy"),
        (["aten._softmax.default"], "softmax"),
        (["aten." + "a" * 20, "aten." + "b" * 19, "aten.c"], "a" * 20 + "_" + "b" * 19),
        (["aten." + "a" * 20, "aten." + "b" * 20, "aten.c"], "a" * 20),
        (["aten." + "a" * 50], "a" * 50),
        ([], "kernel"),
    ],
)
def test_names_of_up_to_forty_characters(operators, stem):
    assert _stem(operators) == stem


def test_tensors_that_a_kernel_reads_are_its_arguments():
    x, m = "tensor<7xf32>", "tensor<7x13xf32>"
    body = (
        "%half = arith.constant 0.5 : f32",
        compute("%y", "%i", "7", extract("%a", "%x", "%i", x) + "\n%b = arith.mulf %a, %half : f32", "%b", x),
    )
    module = module_of(graph(f"%m: {m}, %x: {x}", x, "%y", *body))
    ops = written(module, 1)
    made = next(f for f in functions(module) if f not in graph_functions(module))
    assert str(made.attributes["function_type"].value) == "(tensor<7xf32>) -> tensor<7xf32>"
    assert [op.name for op in ops] == [
        "arith.constant",
        "tensor.extract",
        "arith.mulf",
        "bascule.store",
        "bascule.yield",
    ]


def test_an_element_at_a_constant_place_is_read_through_a_view():
    """Kernels that differ in the place only are then equal."""
    seeds, y = "tensor<3xf32>", "tensor<7xf32>"
    body = "%two = arith.constant 2 : index\n" + extract("%a", "%x", "%two", seeds)
    module = module_of(graph(f"%x: {seeds}", y, "%y", compute("%y", "%i", "7", body, "%a", y)))
    written(module, 1)
    (function,) = graph_functions(module)
    (view, call, _) = [op.operation for op in function.regions[0].blocks[0].operations]
    assert (view.name, str(view.attributes["map"].value)) == ("bascule.view", "() -> (2)")
    assert list(call.operands) == list(view.results)


def test_equal_functions_are_one():
    module = parse(
        "".join(
            f"func.func private @{name}(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{ return %x : tensor<{size}xf32> }}\n"
            for name, size in (("a", 7), ("b", 7), ("c", 8))
        )
        + "func.func @main() attributes {bascule.graph} { return }"
    )
    *made, graph_ = functions(module)
    for function in made:
        function.attributes["sym_name"] = ir.StringAttr.get("kernel")
    owner = KernelFunctions(module, graph_)
    assert [owner.share(function, ["aten.exp.default"]) for function in made] == ["exp_0", "exp_0", "exp_1"]
    assert [f.attributes["sym_name"].value for f in functions(module)] == ["exp_0", "exp_1", "main"]
