"""A process of its own that calls graphs in parts with the disk cache; prints their results and the cache's counters as JSON."""

import json
import sys

import bascule
from tests.compiled.test_serialized import CASES, called

found = {name: [x.tolist() for x in called(name, "bascule", on_error="raise")] for name in CASES}
compiler = [
    name for name in ("torch_mlir", "bascule.dialect.mlir", "bascule.compiler.compile_graph") if name in sys.modules
]
json.dump({"found": found, "traces": bascule.counters()["traces"], "compiler": compiler}, sys.stdout)
