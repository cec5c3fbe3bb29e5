"""The contents of a wheel, built without the native launcher, which takes a compiler and a minute."""

import subprocess
import sys
import tomllib
from configparser import ConfigParser
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["scikit-build"]["wheel"]["packages"]
BUILD = "import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1], dict(map(str.split, sys.argv[2:])))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    settings = [f"build-dir {folder / 'build'}", "cmake.define.BASCULE_NATIVE OFF"]
    subprocess.run([sys.executable, "-c", BUILD, str(folder), *settings], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with ZipFile(path) as opened:
        yield opened


def told(wheel: ZipFile, name: str) -> str:
    (place,) = (place for place in wheel.namelist() if place.endswith(f".dist-info/{name}"))
    return wheel.read(place).decode()


def test_it_holds_the_modules_and_nothing_else(wheel):
    sources = {
        f"{package}/{path.relative_to(ROOT / folder)}"
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".pyi", ".toml", ".txt", ".html", ".css", ".js") and path.name != "CMakeLists.txt"
    }
    modules = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert modules == sources | {"bascule/py.typed"}


def test_its_metadata_is_the_projects(wheel):
    metadata = Parser().parsestr(told(wheel, "METADATA"))
    project = PROJECT["project"]
    assert (metadata["Name"], metadata["Version"]) == (project["name"], project["version"])
    assert set(metadata.get_all("Project-URL")) == {f"{name}, {url}" for name, url in project["urls"].items()}
    assert set(metadata.get_all("Classifier")) == set(project["classifiers"])
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_its_entry_points_are_in_it(wheel):
    points = ConfigParser(delimiters="=")
    points.optionxform = str
    points.read_string(told(wheel, "entry_points.txt"))
    names = set(wheel.namelist())
    assert "torch_dynamo_backends" in points and "console_scripts" in points
    for group in points.sections():
        for name, target in points[group].items():
            module = target.split(":")[0].replace(".", "/")
            assert {f"{module}.py", f"{module}/__init__.py"} & names, (group, name, target)


def test_a_release_is_in_the_changelog():
    version = PROJECT["project"]["version"]
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text()
