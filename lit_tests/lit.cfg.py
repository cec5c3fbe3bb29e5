"""lit's configuration: tests are .mlir and .py files whose RUN lines call bascule-opt, bascule-run, bascule-import and filecheck."""

import os
from pathlib import Path

from bascule import lit_config

output = os.environ.get("BASCULE_LIT_OUTPUT", str(Path(__file__).parent.parent / "build" / "lit"))
lit_config.set_up(config, __file__, "bascule", output=output)
config.excludes |= {"pass_from_outside.py.mlir"}
# Large tensors of `bascule-run` are taken from what earlier ones left, not from pages that the kernel has to clear: 15 s for 41.
config.environment["MALLOC_MMAP_THRESHOLD_"] = config.environment["MALLOC_TRIM_THRESHOLD_"] = str(1 << 32)
