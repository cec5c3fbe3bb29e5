"""Dynamo kept out of the project's own functions.

Where a compiled function was left for a graph break, or for its `backward()`, Dynamo looks at every Python frame that starts, those of a
compiled backward among them. What Dynamo's `disable` wraps is safe, but costs at each call; files that Dynamo skips cost nothing.

PyTorch's list of such files is private to it. Checked on torch 2.11 to 2.14.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bascule.compat.graphs.dynamo import trace_rules

# Each may be a folder of its own.
PACKAGES = ("bascule", "bascule.dialect", "bascule.frontend", "bascule.lowering", "bascule.runtime")


@cache
def keep_untraced() -> None:
    """Has Dynamo skip all files of the project from now on."""
    *packages, last = PACKAGES
    # What `trace_rules.add` does, but for its compile of an expression of all folders, 3 ms each time.
    for package in packages:
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            trace_rules.SKIP_DIRS.append(f"{Path(spec.origin).parent.as_posix()}/")
    trace_rules.add(last)
