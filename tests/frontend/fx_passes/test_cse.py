"""Equal nodes of a joint graph become one, and no others."""

import subprocess
import sys

import torch
from bascule.frontend.fx_passes.cse import merge_equal_nodes
from torch._functorch.compile_utils import fx_graph_cse
from torch.fx import Graph
from torch.fx.experimental.proxy_tensor import make_fx


def merged(function, *inputs, tracing_mode: str = "fake") -> list[str]:
    """The names of the operators that are left; the results are those of before."""
    gm = make_fx(function, tracing_mode=tracing_mode)(*inputs)
    theirs = fx_graph_cse(gm.graph)
    merge_equal_nodes(gm.graph)
    gm.graph.lint()
    gm.recompile()
    assert len(list(gm.graph.nodes)) == len(list(theirs.nodes))
    return calls(gm.graph)


def calls(graph: Graph) -> list[str]:
    return [str(node.target).removeprefix("aten.") for node in graph.nodes if node.op == "call_function"]


x, y = torch.randn(4, 6), torch.randn(4, 6)


def test_equal_operators():
    assert merged(lambda x, y: (x * y).sin() + (x * y).sin() + 1, x, y) == [
        "mul.Tensor",
        "sin.default",
        "add.Tensor",
        "add.Tensor",
    ]


def test_lists_and_results_of_several():
    def run(x):
        a, b = torch.var_mean(x, [0, 1])
        c, d = torch.var_mean(x, [0, 1])
        e, _ = torch.var_mean(x, [1])
        return a + b + c + d, e + 1

    assert merged(run, x).count("var_mean.correction") == 2


def test_sizes():
    def run(x):
        return x.reshape(x.shape[0] * x.shape[1]) + 1, x.reshape(x.shape[0] * x.shape[1]) + 2

    assert merged(run, x, tracing_mode="symbolic").count("view.default") <= 1


def test_numbers_of_another_type():
    gm = make_fx(lambda x: ((x * 1).sin() + (x * 1.0).sin()) * (x * True).sin(), tracing_mode="fake")(x)
    merge_equal_nodes(gm.graph)
    assert calls(gm.graph).count("sin.default") == 3


def test_zeros_of_another_sign():
    gm = make_fx(lambda x: (x * 0.0).reciprocal() + (x * -0.0).reciprocal(), tracing_mode="fake")(x)
    merge_equal_nodes(gm.graph)
    assert calls(gm.graph).count("reciprocal.default") == 2


def test_random_operators_stay():
    assert merged(lambda x: torch.rand_like(x) + torch.rand_like(x), x).count("rand_like.default") == 2


def test_outputs_stay_apart():
    assert merged(lambda x: (x + 1, x + 1), x) == ["add.Tensor", "add.Tensor"]
    assert merged(lambda x: ((x + 1).view(24), (x + 1).view(24)), x).count("add.Tensor") == 2


def test_what_is_read_before_and_after_a_write():
    def run(x, y):
        before = x.sin()
        x.copy_(y)
        return before * 2, x.sin() * 3

    assert merged(run, x, y).count("sin.default") == 2


def test_a_training_step_does_not_import_the_lowerings_of_inductor():
    code = """
import sys, torch
f = torch.compile(lambda x: (x.exp() * x.exp()).sum(), backend="bascule", options={"on_error": "raise"})
f(torch.randn(3, requires_grad=True)).backward()
assert "torch._inductor.lowering" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_that_nobody_wrote():
    """Each tensor of it is another, by whatever operator."""

    def empties(x):
        sums = [x.new_empty(3).sum(), x.new_empty(3).sum(), torch.empty_permuted((2, 3), (1, 0)).sum()]
        return sum(sums, torch.empty_permuted((2, 3), (1, 0)).sum())

    gm = make_fx(empties)(x)
    before = calls(gm.graph)
    assert before.count("new_empty.default") == before.count("empty_permuted.default") == 2
    merge_equal_nodes(gm.graph)
    assert calls(gm.graph) == before
