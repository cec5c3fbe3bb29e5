"""Each constant of a machine says its unit and its source; what was measured, when, and by which script where there is one."""

from datetime import date
from pathlib import Path

import pytest
from bascule.dialect.machines import measures as module
from bascule.dialect.machines.measures import FOLDER, SOURCES, measures, value

ROOT = Path(__file__).parents[3]
MACHINES = sorted(path.stem for path in FOLDER.glob("*.toml"))
ALL = [(machine, name) for machine in MACHINES for name in measures(machine)]


def test_the_machines():
    assert MACHINES == ["avx2", "avx512", "cuda", "h200", "nvlink", "pcie"]


@pytest.mark.parametrize(("machine", "name"), ALL)
def test_each_constant_has_a_unit_and_a_source(machine, name):
    found = measures(machine)[name]
    assert found.unit and found.source in SOURCES
    assert (found.source in ("measured", "compared")) == bool(found.date)
    if found.date:
        assert date.fromisoformat(found.date) >= date(2026, 1, 1)
    if found.script:
        assert (ROOT / f"{found.script.replace('.', '/')}.py").is_file()


def test_a_machine_inherits_what_it_has_not(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "old.toml").write_text(
        '[a]\nvalue = 1\nunit = "x"\nsource = "assumed"\n[b]\nvalue = 2\nunit = "x"\nsource = "assumed"\n'
    )
    (tmp_path / "new.toml").write_text('inherits = "old"\n[b]\nvalue = 3\nunit = "x"\nsource = "assumed"\n')
    assert (value("new", "a"), value("new", "b"), value("old", "b")) == (1, 3, 2)


def test_a_constant_without_a_source_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "bare.toml").write_text("[a]\nvalue = 1.9\n")
    with pytest.raises(TypeError, match="unit"):
        measures("bare")


def test_nobody_knows_another_machine():
    with pytest.raises(FileNotFoundError):
        measures("abacus")
