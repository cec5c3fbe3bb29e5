"""The options about FX passes: which run, what is printed, dumped and told, and what of it a cache sees."""

import pytest
import torch

import bascule
from bascule.cache.keys import seen
from bascule.errors import UserError
from bascule.options import Options, make_options
from bascule.reporting.counters import reset_counters

STRICT = {"on_error": "raise"}


def step(x, w):
    return x.relu().clone() @ w


def leaves():
    return [torch.randn(*sizes, requires_grad=True) for sizes in ((4, 6), (6, 3))]


def explained(**options):
    return bascule.explain(step, *leaves(), options={**STRICT, **options})


@pytest.mark.parametrize(
    "given", ["pad-products,drop-copies", ["drop-copies", "pad-products"], ("drop-copies", "pad-products")]
)
def test_names_in_any_form_mean_the_same(given):
    assert make_options(None, {"disable_fx_passes": given}).disable_fx_passes == ("drop-copies", "pad-products")


@pytest.mark.parametrize("option", ["disable_fx_passes", "print_fx_passes"])
def test_wrong_names_are_refused(option):
    with pytest.raises(UserError, match=rf"'{option}': there is no FX pass 'drop-copy' .did you mean 'drop-copies'"):
        make_options(None, {option: "drop-copy"})
    with pytest.raises(UserError, match=f"'{option}': takes names of FX passes, got 3"):
        make_options(None, {option: 3})


def test_what_ran_is_explained():
    forward, backward = explained().graphs
    ran = {run.name: run for run in forward.fx_passes}
    assert ran["drop-copies"].changes == 1 and ran["drop-copies"].before == ran["drop-copies"].after + 1
    assert not ran["pad-products"].changes and ran["check-indices"].stage == "checks"
    assert not backward.fx_passes
    text = str(forward)
    assert f"  {len(ran)} FX passes in " in text and "of which 1 changed the graph" in text
    assert "    drop-copies (joint): 1 place, " in text
    told = {run.name for run in explained(disable_fx_passes="drop-copies").graphs[0].fx_passes}
    assert {*ran} - told == {"drop-copies"}


def test_a_graph_is_printed_around_a_pass(capsys):
    explained(print_fx_passes="drop-copies,pad-products")
    printed = capsys.readouterr().err.split("# -----# FX Graph ")[1:]
    assert [text.split(" #")[0].split(" (")[0] for text in printed] == [
        *("before drop-copies", "after drop-copies", "before pad-products", "after pad-products")
    ]
    assert ["aten.clone" in text for text in printed] == [True, False, False, False]
    assert "as before" in printed[3] and "def forward" in printed[2]


def test_all_are_printed(capsys):
    told = explained(print_fx_passes="all")
    assert capsys.readouterr().err.count("FX Graph after ") == len(told.graphs[0].fx_passes) > 14


def test_a_pass_that_changes_a_graph_is_dumped(tmp_path):
    explained(dump=str(tmp_path))
    found = {path.name: path.read_text() for path in tmp_path.glob("*/fx/*")}
    (before, after) = sorted(found, reverse=True)
    assert before.endswith("-drop-copies.before.py") and after == before.replace("before", "after")
    assert "aten.clone" in found[before] and "aten.clone" not in found[after]


def test_what_a_failing_pass_was_given_is_dumped(tmp_path, monkeypatch):
    def fails(graph):
        raise ValueError("told")

    monkeypatch.setattr("bascule.frontend.fx_passes.cse.merge_equal_nodes", fails)
    with pytest.raises(Exception, match="told"):
        explained(dump=str(tmp_path))
    assert [path.name.split("-", 1)[1] for path in tmp_path.glob("*/fx/*merge*")] == ["merge-equal-nodes.before.py"]


@pytest.mark.parametrize("backend", ["bascule_nop", "bascule_print", "bascule_debug", "bascule_dump"])
def test_debug_backends_follow_too(backend, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for disabled, clones in (("pad-products", 0), ("pad-products,drop-copies", 1)):
        torch._dynamo.reset()
        options = {"print_fx_passes": "merge-equal-nodes", "disable_fx_passes": disabled}
        torch.compile(step, backend=backend, options=options)(*leaves()).sum().backward()
        _, before, _ = capsys.readouterr().err.split("# -----# FX Graph ")
        assert before.count("aten.clone") == clones


def test_both_keys_see_what_is_disabled_and_not_what_is_printed():
    plain, disabled, printed = (
        seen(Options(**options), ())
        for options in ({}, {"disable_fx_passes": ("drop-copies",)}, {"print_fx_passes": ("all",)})
    )
    assert plain == printed != disabled


def test_an_entry_made_without_a_pass_is_not_loaded_with_it(folder):
    x, w = leaves()
    for options, counted in (
        ({}, {"miss": 1, "stored": 1}),
        ({"disable_fx_passes": ["drop-copies"]}, {"miss": 1, "stored": 1}),
        ({"disable_fx_passes": "drop-copies"}, {"hit": 1}),
        ({}, {"hit": 1}),
        ({"print_fx_passes": "pad-products"}, {"bypass: the option 'print_fx_passes' is on": 1}),
    ):
        torch._dynamo.reset()
        reset_counters()
        torch.compile(step, backend="bascule", options={**STRICT, **options})(x, w).sum().backward()
        assert bascule.counters()["traces"] == counted
