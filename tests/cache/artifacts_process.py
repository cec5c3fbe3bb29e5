"""A process of its own that saves cache artifacts to a file, or loads them from there; prints what it computed and counted as JSON.

    artifacts_process.py (save|load|look) FILE MODULE..

`load` computes with what it loaded, `look` only loads. The modules are imported before anything is loaded: a process that loads may know
nothing of Bascule.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import torch

what, file = sys.argv[1], Path(sys.argv[2])
for module in sys.argv[3:]:
    importlib.import_module(module)
found, told = {}, {}
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    if what != "save":
        info = torch.compiler.load_cache_artifacts(file.read_bytes())
        found = {} if info is None else {name: len(keys) for name, keys in info.artifacts.items()}
if what != "look":
    x = torch.linspace(-2, 2, 40).view(5, 8)
    told["out"] = torch.compile(lambda x: torch.softmax(x.sin(), -1).cumsum(0), backend="bascule")(x).tolist()
    told["want"] = torch.softmax(x.sin(), -1).cumsum(0).tolist()
if what == "save":
    file.write_bytes(torch.compiler.save_cache_artifacts()[0])

from bascule.reporting.counters import counters  # noqa: E402

groups = {name: counters()[name] for name in ("cache", "traces")}
warned = [str(one.message) for one in given if one.category.__name__ == "CacheWarning"]
json.dump({**told, **groups, "artifacts": found, "warnings": warned}, sys.stdout)
