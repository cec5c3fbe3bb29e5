"""Names in README.md, CONTRIBUTING.md and docs/*.md exist: files, folders, the passes in their order, `make` targets."""

import re
from pathlib import Path

import pytest
from bascule.frontend.fx_pipeline import registry

from bascule.pipelines import DEFAULT, STAGES

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
# Where a path in a document may begin.
FOLDERS = (
    "",
    "bascule",
    "dialect",
    "dialect/analysis",
    "frontend",
    "lowering",
    "lowering/cpu",
    "runtime",
    "runtime/native",
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_are_there(document):
    told = re.findall(r"`([\w/.]+(?:\.(?:py|pyi|cpp|h|md)|/))(?::\w+)?`", (ROOT / document).read_text())
    missing = {path for path in told if not any((ROOT / folder / path).exists() for folder in FOLDERS)}
    assert not missing - {"reciprocals.py", "model.py"} - {"dist/"}  # of a user's own; what `make wheel` makes


def test_links_lead_somewhere():
    for document in map(ROOT.joinpath, DOCUMENTS):
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), (document, link)


def test_the_pipeline_is_the_one_that_runs():
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (?:tensor|kernel|program) stage \| (.*) \|$", text, re.MULTILINE)
    assert tuple(name for row in rows for name in re.findall("`([^`]+)`", row)) == DEFAULT


def test_the_table_of_fx_passes_is_the_registrys():
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text[text.index("## FX passes\n") : text.index("## Before the trace\n")]
    rows = [row.split(" | ") for row in re.findall(r"^\| (`\w+` \| .*) \|$", section, re.MULTILINE)]
    assert [(stage.strip("`"), of) for stage, of, _ in rows] == [*registry.STAGES.items()]
    for stage, _, told in rows:
        wanted = [(each.name, bool(each.required)) for each in registry.passes_at(stage.strip("`"))]
        assert [(name, bool(star)) for name, star in re.findall(r"`([^`]+)`(\\\*)?", told)] == wanted


def test_the_figure_has_the_stages():
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert tuple(re.findall(r'\["(\w+) stage<br>', text)) == tuple(STAGES)


def test_commands_of_the_readme_are_targets_of_make():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == ["demo", "test"] and set(commands) <= set(targets)
