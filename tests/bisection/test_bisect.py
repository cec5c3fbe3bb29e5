"""`bascule.bisect`: an error of a thousandth in one fusion of a model is found, by graph, pass, kernel and line; right models match."""

import pytest
import torch
from bascule.dialect.passes import registry

import bascule
from bascule.errors import UserError
from bascule.pipelines import DEFAULT

from .faults import SpoilCompute, SpoilKernel


@pytest.fixture(autouse=True)
def faults(monkeypatch):
    monkeypatch.setattr(registry, "_added", {cls.name: cls for cls in (SpoilKernel, SpoilCompute)})


class Block(torch.nn.Module):
    """Several fusions: a normalization, a softmax, an activation, with products between them."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(24), torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)

    def forward(self, x):
        y = self.norm(x)
        y = torch.softmax(y @ y.mT, -1) @ y
        return x + self.down(torch.tanh(self.up(y)))


def with_pass(text: str, before: str) -> dict[str, str]:
    passes = [*DEFAULT]
    passes.insert(passes.index(before), text)
    return {"pipeline": ",".join(passes)}


def inputs():
    return (torch.randn(2, 10, 24, requires_grad=True),)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Block()


def test_a_right_model_matches(model):
    found = bascule.bisect(model, inputs())
    assert found.match and (found.graph, found.culprit, found.fusion) == (None, None, None)
    assert found.graphs == ("graph0_forward", "graph0_backward")
    assert str(found) == "match: graph0_forward, graph0_backward"


@pytest.mark.parametrize("before", ["schedule-kernels", "plan-memory"])
def test_a_fusion_that_a_pass_makes_wrong_by_a_thousandth_is_named(model, before):
    found = bascule.bisect(model, inputs(), options=with_pass("spoil-kernel{kernel=tanh}", before))
    assert (found.graph, found.culprit) == ("graph0_forward", "spoil-kernel")
    assert found.fusion.name.startswith("@tanh") and "aten.tanh.default" in found.fusion.operators
    assert all("test_bisect.py" in source for source in found.fusion.sources) and found.fusion.sources
    text = str(found)
    assert "mismatch in graph0_forward, after 'spoil-kernel'" in text and "1.001" in text and "@tanh" in text


def test_of_two_graphs_the_one_that_is_wrong_is_named(model):
    """The backward alone has a kernel of that name."""
    (name, *_) = [kernel.name for kernel in bascule.explain(model, *inputs()).graphs[1].kernels]
    found = bascule.bisect(model, inputs(), options=with_pass(f"spoil-kernel{{kernel={name}}}", "schedule-kernels"))
    assert (found.graph, found.culprit) == ("graph0_backward", "spoil-kernel")
    assert found.fusion.name == f"@{name}" and found.graphs == ("graph0_forward", "graph0_backward")


def test_a_compute_before_there_are_kernels_is_named(model):
    found = bascule.bisect(model, inputs(), options=with_pass("spoil-compute", "form-kernels"))
    assert found.culprit == "spoil-compute"
    assert found.fusion.name == "bascule.compute" and "aten.tanh.default" in found.fusion.operators


def test_a_function_without_gradients_and_with_dynamic_sizes():
    def f(x):
        return torch.tanh(x.sum(1) * x.shape[0]) + 1, torch.argmax(x, 1)

    given = (torch.randn(7, 9),)
    assert bascule.bisect(f, given, dynamic=True).match
    found = bascule.bisect(f, given, dynamic=True, options=with_pass("spoil-kernel{kernel=}", "schedule-kernels"))
    assert (found.graph, found.culprit) == ("graph0_inference", "spoil-kernel") and found.fusion is not None


def test_a_graph_after_a_break_is_judged_by_its_own_inputs():
    def f(x):
        y = torch.sin(x) * 2
        torch._dynamo.graph_break()
        return torch.tanh(y.cos())

    found = bascule.bisect(f, (torch.randn(8, 8),), options=with_pass("spoil-kernel{kernel=tanh}", "schedule-kernels"))
    assert found.graph == "graph1_inference" and found.graphs == ("graph0_inference", "graph1_inference")


def test_a_mutated_input_counts():
    def f(x, w):
        w.mul_(torch.sigmoid(x))
        return x + 1

    given = (torch.randn(6), torch.randn(6))
    before = given[1].clone()
    assert bascule.bisect(f, given).match
    torch.testing.assert_close(given[1], before * torch.sigmoid(given[0]))  # once
    found = bascule.bisect(f, given, options=with_pass("spoil-kernel{kernel=}", "schedule-kernels"))
    assert found.culprit == "spoil-kernel"


def test_dropout_draws_what_eager_draws():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Tanh())
    assert bascule.bisect(model, (torch.randn(16, 8),)).match


def test_a_rule_that_is_wrong_is_the_conversion(monkeypatch):
    from bascule.frontend.conversion import registry as rules

    right = rules.RULES["aten.tanh.default"]
    monkeypatch.setitem(rules.RULES, "aten.tanh.default", rules.RULES["aten.sin.default"])
    assert right is not rules.RULES["aten.tanh.default"]
    found = bascule.bisect(torch.tanh, (torch.randn(8),))
    assert (found.graph, found.culprit) == ("graph0_inference", "torch-to-bascule")


def test_machine_code_that_is_wrong_is_the_lowering(monkeypatch):
    from bascule.bisection import model as driver

    right = driver.compile_graph

    def wrong(gm, *args, **how):
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
            node.target = torch.ops.aten.sin.default
        return right(gm, *args, **how)

    monkeypatch.setattr(driver, "compile_graph", wrong)
    found = bascule.bisect(torch.tanh, (torch.randn(8),))
    assert (found.graph, found.culprit, found.fusion) == ("graph0_inference", "the lowering", None)


def test_what_is_no_model_or_no_inputs_is_refused():
    with pytest.raises(UserError, match="takes a function or a module"):
        bascule.bisect(3, ())
    with pytest.raises(UserError, match="takes a list or a tuple of inputs"):
        bascule.bisect(torch.sin, torch.randn(3))
