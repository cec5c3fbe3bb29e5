"""The importer: FX graphs of ATen operators at the torch stage, as docs/architecture.md says it."""

import operator
from collections.abc import Callable

import pytest
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import context
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.mlir import ir
from bascule.frontend.importer.graph import ImportedGraph, import_graph
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def traced(function: Callable, *inputs, dynamic: bool = False) -> ImportedGraph:
    mode = "symbolic" if dynamic else "fake"
    gm = make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=True)(*inputs)
    graph = import_graph(gm, inputs, context=context())
    assert graph.module.operation.verify()
    return graph


def main(graph: ImportedGraph) -> ir.Operation:
    return graph.module.body.operations[0].operation


def names(graph: ImportedGraph) -> list[str]:
    ops = [op.operation for op in main(graph).regions[0].blocks[0].operations]
    return [op.attributes["name"].value if op.name == "torch.operator" else op.name for op in ops]


def attribute(graph: ImportedGraph, name: str) -> str:
    return str(main(graph).attributes[name])


def test_strides_stand_on_arguments_and_ops():
    graph = traced(lambda x: aten.t.default(aten.exp.default(x)), torch.randn(3, 4).t())
    text = str(graph.module)
    assert "affine_map<(d0, d1) -> (d0 + d1 * 4)>" in text
    assert "{bascule.layout = #bascule.layout<" in text
    assert text.count("bascule.layouts = ") == 1  # what `exp` makes is strided, what `t` makes of it is row-major


def test_every_parameter_is_an_operand():
    assert names(traced(lambda x: aten.add.Tensor(x, x), torch.randn(2))) == [
        "torch.constant.int",
        "torch.aten.add.Tensor",
        "func.return",
    ]


def test_a_number_for_a_tensor_keeps_the_operator():
    graph = traced(lambda x: aten.mul.Tensor(x, 2.5), torch.randn(2))
    assert 'torch.operator "torch.aten.mul.Tensor"(%arg0, %float2.500000e00)' in str(graph.module)


def test_a_list_result_is_one_result_an_element():
    graph = traced(lambda x: aten.split.Tensor(x, 2)[1], torch.randn(4, 3))
    assert "%0:2 = torch.operator" in str(graph.module)
    assert "torch.prim.ListUnpack" not in names(graph)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.complex64])
def test_unusual_dtypes(dtype):
    traced(lambda x: aten.clone.default(x), torch.zeros(2, dtype=dtype))


def test_none_and_numbers_among_the_outputs():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = FakeTensorMode().from_tensor(torch.randn(2))
    graph.output((x, None, 3, x, 2.5, True))
    imported = import_graph(torch.fx.GraphModule({}, graph), [None], context=context())
    assert attribute(imported, "bascule.outputs") == (
        "[#bascule.operand<0 : i64>, unit, 3, #bascule.operand<0 : i64>, 2.500000e+00, true]"
    )
    assert len(main(imported).attributes["function_type"].value.results) == 1


def test_constants_of_the_graph_are_trailing_arguments():
    table = torch.arange(3.0)
    graph = traced(lambda x: aten.add.Tensor(x, table), torch.randn(3))
    assert [c.tolist() for c in graph.constants] == [[0.0, 1.0, 2.0]]
    assert 'bascule.constant = "_tensor_constant0"' in str(graph.module)
    assert attribute(graph, "bascule.inputs") == '["tensor 0"]'


def test_symbols_lead_and_sizes_are_expressions():
    graph = traced(lambda x: aten.cat.default([x, x], 1), torch.randn(3, 4), dynamic=True)
    text = str(graph.module)
    assert "func.func @main(%arg0: index, %arg1: index, %arg2: !torch.vtensor<[?,?],f32>" in text
    assert "affine_map<()[s0, s1] -> (s0, s1 * 2)>" in text
    sources = main(graph).attributes["bascule.symbol_sources"]
    assert [str(source["kind"]) for source in sources] == ['"size"', '"size"']


def test_sizes_used_as_arguments():
    graph = traced(lambda x: aten.view.default(x, [x.shape[0] * x.shape[1]]), torch.randn(3, 4), dynamic=True)
    assert [n for n in names(graph) if n.startswith(("torch.symbolic", "torch.aten"))] == [
        "torch.symbolic_int",
        "torch.symbolic_int",
        "torch.aten.mul.int",
        "torch.aten.view",
    ]


def test_a_number_computed_from_sizes():
    graph = traced(lambda x: x * (x.shape[0] / 3), torch.randn(4), dynamic=True)
    assert "torch.sym.div" in names(graph) and "torch.aten.mul.Tensor" in names(graph)


def test_unused_sizes_leave_nothing():
    def function(x):
        operator.mul(x.shape[0], 2)
        return aten.exp.default(x)

    assert names(traced(function, torch.randn(4), dynamic=True)) == ["torch.aten.exp", "func.return"]


def test_locations_are_the_users():
    gm = make_fx(torch.nn.functional.softplus, tracing_mode="fake")(torch.randn(2))
    (node,) = (n for n in gm.graph.nodes if n.op == "call_function")
    inside = torch.nn.functional.__file__
    node.meta["stack_trace"] = (
        'File "main.py", line 3, in <module>\n    f(x)\nFile "model.py", line 12, in f\n    y = softplus(x)\n'
        f'File "{inside}", line 9, in softplus\n'
    )
    graph = import_graph(gm, [torch.randn(2)], context=context())
    ops = main(graph).regions[0].blocks[0].operations
    op = next(op.operation for op in ops if op.operation.name == "torch.aten.softplus")
    with graph.module.context:
        assert source_of(op.location) == "model.py:12:0"
        assert operators_of(op.location) == ["aten.softplus.default"]


def test_as_strided_counts_from_the_first_element():
    graph = traced(lambda x: aten.as_strided.default(aten.slice.Tensor(x, 0, 1), [2], [1], 5), torch.randn(3, 4))
    op = next(op.operation for op in main(graph).regions[0].blocks[0].operations if "as_strided" in str(op))
    offset = op.operands[3].owner.attributes["value"].value
    assert offset == 1


def test_sparse_tensors_are_refused():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((x,))
    with pytest.raises(UnsupportedError, match=r"layout torch\.sparse_coo"):
        import_graph(torch.fx.GraphModule({}, graph), [torch.eye(2).to_sparse()], context=context())
