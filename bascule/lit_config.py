"""The configuration of lit for passes of one's own, out of this tree: a `lit.cfg` calls `set_up`, and `lit FOLDER` runs the tests beside it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lit.formats

from .fork_server import ForkServer, is_possible

SUFFIXES = (".mlir", ".py")
PASSED_ON = ("HOME", "TMPDIR", "OMP_NUM_THREADS", "BASCULE_CACHE_DIR", "PYTHONPATH")


class RunLines(lit.formats.ShTest):
    """Files with RUN lines are tests. A Python file without is a module of passes, which stands beside their tests."""

    def __init__(self):
        super().__init__(execute_external=False)

    def getTestsForPath(self, suite, path, lit_config, local_config):
        source = Path(suite.getSourcePath(path))
        if source.suffix != ".py" or (source.is_file() and b"RUN:" in source.read_bytes()):
            yield from super().getTestsForPath(suite, path, lit_config, local_config)


def set_up(config: Any, file: str, name: str, *, suffixes: Sequence[str] = SUFFIXES, output: str | None = None) -> None:
    """Makes the files with `suffixes` beside `file`, the `lit.cfg` itself, and below it tests of RUN lines in lit's own shell; Python files
    without any are modules.

    `config` is what lit gives a `lit.cfg`; `name` stands before the tests' names; `output` is where what they write goes (default: folders
    `Output` beside them). RUN lines find the tools of the environment that runs lit, whether or not it is activated, and the Python modules in
    the folder of `file`, so that `--load-pass=module:Class` takes a pass from there; `%tests` is that folder. Where the system can, the
    tools are forks of one process that has imported them.
    """
    folder = Path(file).resolve().parent
    config.name = name
    config.test_format = RunLines()
    config.suffixes = list(suffixes)
    config.excludes = {*config.excludes, Path(file).name}
    config.test_source_root = str(folder)
    config.test_exec_root = output or str(folder)
    config.substitutions.append(("%tests", str(folder)))
    environment = config.environment
    environment.update({key: os.environ[key] for key in PASSED_ON if key in os.environ})
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), environment.get("PYTHONPATH")]))
    if is_possible():
        server = ForkServer(environment=dict(environment))
        _servers.append(server)
        environment["PATH"] = os.pathsep.join([str(server.folder), environment["PATH"]])


_servers: list[ForkServer] = []  # they end with this process
