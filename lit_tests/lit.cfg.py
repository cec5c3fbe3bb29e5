"""lit's configuration: tests are .mlir and .py files whose RUN lines call bascule-opt, bascule-run, bascule-import and filecheck."""

import os
import sys
from pathlib import Path

import lit.formats

config.name = "bascule"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py"]
config.excludes = ["lit.cfg.py", "pass_from_outside.py.mlir"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = os.environ.get("BASCULE_LIT_OUTPUT", str(Path(__file__).parent.parent / "build" / "lit"))
# The tools of the environment that runs lit, whether or not it is activated.
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
for name in ("HOME", "TMPDIR", "OMP_NUM_THREADS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
