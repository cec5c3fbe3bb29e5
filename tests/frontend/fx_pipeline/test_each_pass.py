"""Each FX pass changes its program when it is on, does not run when it is switched off, and results are eager's both times."""

import pytest
import torch
from bascule.frontend.fx_pipeline.registry import PASSES

from bascule.errors import UserError
from bascule.options import make_options
from tests.frontend.against_eager import check

from .programs import ALSO, PROGRAMS, as_on_a_gpu

OPTIONAL = [name for name, each in PASSES.items() if not each.required]


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    as_on_a_gpu(monkeypatch)


def runs(program, **options):
    """The passes that ran, with results compared to eager's."""
    asked = {**program.options, **options}
    with torch.set_grad_enabled(program.trains):
        records = check(program.function, program.inputs(), options=asked, **program.tolerance)
    assert records and not any(record.fallback for record in records)
    return [run for record in records for run in record.fx_runs]


def test_every_pass_has_a_program():
    assert {*PROGRAMS} == {*PASSES}
    assert {*ALSO} == {name for name, each in PASSES.items() if len(each.stages) > 1}


@pytest.mark.parametrize("name", PASSES)
def test_it_changes_its_program(name):
    found = [run for run in runs(PROGRAMS[name]) if run.name == name]
    assert sum(run.changes for run in found) > 0
    assert {run.stage for run in found} <= {*PASSES[name].stages}


@pytest.mark.parametrize("name", ALSO)
def test_in_its_other_stages_too(name):
    found = [run for run in runs(ALSO[name]) if run.changes and run.name == name]
    assert [run.stage for run in found] == [*PASSES[name].stages[1:]]


@pytest.mark.parametrize("name", OPTIONAL)
def test_without_it_results_are_the_same(name):
    for program in (PROGRAMS[name], *([ALSO[name]] if name in ALSO else [])):
        assert name not in {run.name for run in runs(program, disable_fx_passes=[name])}


def test_without_any():
    for program in PROGRAMS.values():
        assert {run.name for run in runs(program, disable_fx_passes=OPTIONAL)}.isdisjoint(OPTIONAL)


@pytest.mark.parametrize("name", [name for name in PASSES if name not in OPTIONAL])
def test_a_required_one_is_not_switched_off(name):
    with pytest.raises(UserError, match=f"the FX pass '{name}' is required: ") as refused:
        make_options(None, {"disable_fx_passes": [name]})
    assert PASSES[name].required in str(refused.value)
