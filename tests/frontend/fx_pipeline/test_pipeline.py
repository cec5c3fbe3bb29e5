"""FX passes run in order, timed and watched; each run is recorded."""

from contextlib import contextmanager

import pytest
import torch
from bascule.frontend.fx_passes import cse
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from torch.fx.experimental.proxy_tensor import make_fx


def graph():
    return make_fx(lambda x: x.exp() + x.exp(), tracing_mode="fake")(torch.randn(3))


def test_each_run_is_recorded():
    passes = FxPipeline()
    assert passes.run("joint", graph()) == 1
    assert [run.number for run in passes.runs] == [*range(18)]
    (changing,) = [run for run in passes.runs if run.changes]
    assert (changing.name, changing.stage, changing.before, changing.after) == ("merge-equal-nodes", "joint", 5, 4)
    assert changing.seconds > 0
    assert str(changing).startswith("merge-equal-nodes (joint): 1 place, 5 -> 4 nodes, ")


def test_nodes_of_graphs_that_are_called_are_counted():
    gm = graph()
    gm.add_submodule("body", graph())
    passes = FxPipeline()
    passes.run("joint", gm)
    assert passes.runs[0].before == 10


def test_a_pass_that_is_disabled_or_lacks_what_it_needs_does_not_run():
    ran = {run.name for run in _ran(FxPipeline(disabled=("drop-copies",)))}
    assert "drop-copies" not in ran and "seed-dropouts" in ran
    assert "seed-dropouts" not in {run.name for run in _ran(FxPipeline(frozenset()))}


def _ran(passes):
    passes.run("joint", graph())
    return passes.runs


def test_settings_of_one_graph_count_beside_those_of_all():
    passes = FxPipeline(frozenset({"captured", "philox"}))
    passes.run("dynamo", graph())
    assert [run.name for run in passes.runs] == ["simplify-attention-masks"]
    passes.run("dynamo", graph(), "gradients")
    assert [run.name for run in passes.runs[1:]] == ["seed-bodies", "simplify-attention-masks"]


def test_a_run_is_watched():
    seen = []

    @contextmanager
    def watch(run, gm):
        seen.append((run.name, len(gm.graph.nodes), run.changes))
        yield
        seen.append((run.name, len(gm.graph.nodes), run.changes))

    FxPipeline(watch=watch).run("joint", graph())
    assert len(seen) == 36
    assert ("merge-equal-nodes", 5, 0) in seen and ("merge-equal-nodes", 4, 1) in seen


def test_an_error_names_the_pass(monkeypatch):
    def fails(graph):
        raise ValueError("told")

    monkeypatch.setattr(cse, "merge_equal_nodes", fails)
    with pytest.raises(ValueError, match="told") as error:
        FxPipeline().run("joint", graph())
    assert error.value.__notes__ == ["in the FX pass 'merge-equal-nodes'"]
