"""Each file of benchmarks/results says what it was measured on, and what is missing beside Bascule's numbers."""

import json

import pytest

from benchmarks import measure
from benchmarks.readme_figures import RESULTS

KEYS = {"benchmark", "date", "commit", "commit_is", "dirty", "device", "threads", "versions", "missing", "rows"}
VERSIONS = {"python", "torch", "triton", "bascule"}


def check(record: dict) -> None:
    assert {*record} >= KEYS and record["rows"] and record["commit"] and record["device"] and record["date"]
    assert {*record["versions"]} >= VERSIONS and record["versions"]["torch"] and record["versions"]["python"]
    assert (record["dirty"] is None) == (record["commit_is"] != "of the run")
    assert record["missing"] == measure.beside(record["rows"])


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_says_what_it_was_measured_on(path):
    check(json.loads(path.read_text()))


def test_what_is_saved_says_it(tmp_path):
    measure.save("name", [{"case": "a", "eager": 1.0, "bascule": 2.0}], str(tmp_path / "x.json"), device="cpu")
    record = json.loads((tmp_path / "x.json").read_text())
    check(record)
    assert record["missing"] == {"eager": None, "inductor": "not measured by this run"}
