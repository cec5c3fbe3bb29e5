"""The table of README.md and its figure are what the results that are kept give."""

import pytest

from benchmarks.readme_figures import FIGURE, MEASURES, README, TABLE, figure, table


def test_the_table_is_fresh():
    (found,) = TABLE.findall(README.read_text())
    assert found == table(), "stale: run python -m benchmarks.readme_figures"


def test_the_figure_is_fresh():
    assert FIGURE.read_text() == figure(), "stale: run python -m benchmarks.readme_figures"


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.title)
def test_every_case_has_every_ratio(measure):
    for other in measure.beside:
        assert len(measure.ratios(other)) == len(measure.rows()) > 0
