"""The fenced blocks of README.md, CONTRIBUTING.md and docs/*.md run, in their order, in an empty folder, as a new user would run them.

A block whose first line is a comment that names a file is that file; other `python` blocks of a document are one session; `sh` blocks are
commands. `sh gpu` needs a GPU: its programs are checked to know their parameters. `sh install` would fetch packages: what it names is checked to
be there. `mermaid` is a figure; `json` and `lua` are an editor's settings, whose language server is talked to. MLIR without a file's name:
`test_examples.py`.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from bascule.fork_server import ForkServer
from tests.docs.python_session import PythonSession
from tests.language_server.client import talking

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "sh", "sh gpu", "sh install", "mlir", "toml", "mermaid", "json", "lua"}


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """Its name, where it is one."""
        named = re.match(r"(?:#|//) ([\w-]+\.\w+)\n", self.text)
        return named[1] if named else None

    def commands(self) -> list[list[str]]:
        return [shlex.split(line, comments=True) for line in self.text.replace("\\\n", "").splitlines()]


def blocks(document: str) -> list[Block]:
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*block) for block in found]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_block_says_what_it_is(document):
    assert {block.language for block in blocks(document)} <= LANGUAGES


@pytest.fixture(scope="module")
def environment():
    """That of a shell that finds the tools of the environment that runs the tests; they are forks of one process."""
    server = ForkServer()
    path = os.pathsep.join([str(server.folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    yield {**os.environ, "PATH": path}
    server.close()


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if blocks(document)])
def test_its_blocks_run(document, tmp_path, environment):
    environment = {**environment, "BASCULE_CACHE_DIR": str(tmp_path / "cache")}  # one of its own
    with PythonSession(tmp_path, environment, "-W", "error::bascule.errors.FallbackWarning") as session:
        for block in blocks(document):
            run_block(block, tmp_path, session, environment)


def run_block(block: Block, folder: Path, session: PythonSession, environment: dict[str, str]) -> None:
    match block.language:
        case _ if block.file is not None:
            (folder / block.file).write_text(block.text)
        case "python":
            session.run(block.text)
        case "sh":
            for command in block.commands():
                run(command, folder, environment) if command[0] != "make" else check_target(command[1])
        case "mermaid":
            check_figure(block.text)
        case "json" | "lua":
            check_editor(block, folder)
        case "sh install":
            check_installs(block.text)
        case "sh gpu":
            for command in block.commands():
                check_parameters(command)
        case "toml":
            tomllib.loads(block.text)


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"


def check_figure(text: str) -> None:
    """A flowchart: a first line that says so, then edges, each from a node that has a label."""
    kind, *lines = text.splitlines()
    assert kind.startswith("flowchart ")
    labelled = set(re.findall(r'(\w+)\["', text))
    for line in lines:
        edge = re.fullmatch(r' +(\w+)(?:\["[^"]+"\])? -->\|[^|"]+\| (\w+)(?:\["[^"]+"\])?', line)
        assert edge is not None and {*edge.groups()} <= labelled, line


def check_editor(block: Block, folder: Path) -> None:
    """Settings that start a language server: it is one, with the name of a script of the project's."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    found = re.search(r"cmd = \{ (.+?) \}", block.text) if block.language == "lua" else None
    words = json.loads(f"[{found[1]}]") if found else [json.loads(block.text)["mlir.server_path"]]
    name = Path(words[0]).name
    assert name in scripts
    with talking(*words[1:], command=[str(Path(sys.executable).parent / name)], folder=folder) as client:
        assert client.capabilities["serverInfo"]["name"] == name
        assert client.leave() == 0


def check_target(name: str) -> None:
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def check_installs(text: str) -> None:
    """Whether what `pip` is asked for is there: this folder, extras of the project's, the file name of its wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for command in re.split(r"\n|&&", re.sub(r" +#.*", "", text.strip())):
        pip, action, what, *_ = shlex.split(command)
        assert pip == "pip" and action in ("install", "wheel")
        extra = re.fullmatch(r"\.(?:\[(\w+)\])?", what)
        wheel = what.startswith(f"dist/{project['name']}-")
        assert wheel or (extra and extra[1] in (None, *project["optional-dependencies"])), command


def check_parameters(command: list[str]) -> None:
    """`python -m module ..`: its help names the parameters that it is given."""
    assert command[:2] == ["python", "-m"]
    done = subprocess.run([sys.executable, "-m", command[2], "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not [word for word in command[3:] if word.startswith("--") and word not in done.stdout]
