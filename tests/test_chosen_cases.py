"""Which tests `make pytest` and `make smoke` run: the same ones in every run."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest


def kept(every=1, few=False, folder="frontend", cases=range(12)):
    """Of a file with a test of 12 cases, one of two, and one without."""
    path = Path("tests") / folder / "test_it.py"
    names = [f"many[{n}]" for n in cases] + ["two[a]", "two[b]", "one"]
    items = [SimpleNamespace(path=path, nodeid=f"{path}::{name}") for name in names]
    left = []
    config = SimpleNamespace(
        getoption={"every": every, "few_cases": few}.__getitem__,
        hook=SimpleNamespace(pytest_deselected=lambda items: left.extend(items)),
    )
    conftest.pytest_collection_modifyitems(config, items)
    assert len(items) + len(left) == len(names)
    return [item.nodeid.partition("::")[2] for item in items]


def test_all_run_where_nothing_is_asked():
    assert len(kept()) == 15


def test_a_few_cases_of_each_function():
    few = kept(few=True, cases=range(400))
    assert [name for name in few if not name.startswith("many")] == ["two[a]", "two[b]", "one"]
    assert few[:2] == ["many[0]", "many[1]"] and 70 < len(few) < 130


def test_a_case_that_is_added_moves_no_other():
    before, after = kept(few=True, cases=range(400)), kept(few=True, cases=[*range(200), "new", *range(200, 400)])
    assert before == [name for name in after if name != "many[new]"]


@pytest.mark.parametrize("folder", sorted(conftest.IN_PARTS))
def test_what_is_drawn_has_parts_of_its_own(folder):
    assert len(kept(few=True, folder=folder)) == 15


def test_every_sixth_of_a_file():
    assert kept(every=6) == ["many[0]", "many[6]", "two[a]"]
