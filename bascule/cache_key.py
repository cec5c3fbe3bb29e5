"""The key of a compiled graph: everything that decides what is compiled, and nothing that does not.

That is the imported IR, the pipeline, the options that change code, the versions of what compiles, and the machine. The user's lines are not
in it: they are numbered in the IR's text, and an entry keeps their numbers, so that equal graphs of different lines share it, each with notes
and comments that name its own lines.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.runtime.processor import instruction_sets

from .dialect.mlir import ir
from .dialect.passes import Pass, Pipeline
from .options import Options

FORMAT = 1  # of entries, and of what a key covers
LAYERS = ("bascule", *(f"bascule.{layer}" for layer in ("frontend", "dialect", "lowering", "runtime")))
# Options that do not change what is compiled, or that the pipeline's text or the IR shows.
UNSEEN = (
    "pipeline",
    "on_error",
    "dump",
    "verify",
    "cache",
    "fallback",
    "cudagraphs",
    "cudagraph_shapes",
    "cudagraph_bytes",
)
_PLACE = re.compile(r'loc\("([^"]*)":(\d+):(\d+)(?: to :\d+)?\)')
_STARTED = time.time() - time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)  # an upper bound of when imports began
_UNSAFE = re.compile(r"[^\x20-\x7e]|['\"\\]")


class NotKeyed(Exception):
    """The graph is not kept on disk; the text says why."""


def numbered(module: ir.Module) -> tuple[str, list[str]]:
    """The text of `module` with its source lines numbered, and the lines by number: `model.py:12:0`. Raises `NotKeyed` for odd file names."""
    places: dict[str, int] = {}

    def number(match: re.Match) -> str:
        place = ":".join(match.groups())
        return f"loc({places.setdefault(place, len(places))})"

    text = _PLACE.sub(number, module.operation.get_asm(enable_debug_info=True))
    if any(_UNSAFE.search(place) for place in places):
        raise NotKeyed("the name of a source file has unusual characters")
    return text, list(places)


def key_of(text: str, gm: GraphModule, pipeline: Pipeline, options: Options, machine: Any) -> str:
    """The key of `gm`, imported as `text`. `machine`: what the target is, as JSON takes it."""
    for stage in pipeline.stages:
        if isinstance(stage, Pass) and not type(stage).__module__.startswith("bascule."):
            raise NotKeyed(f"'{stage.name}' is a pass of the user's own")
    chosen = {name: value for name, value in asdict(options).items() if name not in UNSEEN and not callable(value)}
    conditions = [FORMAT, str(pipeline), chosen, machine, _versions(), sorted(set(_schemas(gm)))]
    return sha256(f"{json.dumps(conditions, sort_keys=True, default=str)}\n{text}".encode()).hexdigest()


def _schemas(gm: GraphModule) -> Iterator[str]:
    """Of the operators that do not come with PyTorch: another process may have others under the same names."""
    for node in gm.graph.nodes:
        for target in (node.target, *node.args[:2]):
            if isinstance(target, torch._ops.OpOverload) and target.namespace not in ("aten", "prims"):
                yield str(target._schema)


@cache
def _versions() -> dict[str, str]:
    names = {name: _version(name) for name in ("torch-mlir", "triton")}
    return {
        **names,
        "torch": f"{torch.__version__} {torch.version.git_version}",
        "python": sys.version,
        "bascule": _source_digest(),
        "processor": " ".join(sorted(instruction_sets())),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _source_digest() -> str:
    """Of our own code: whoever changes a pass means it. Raises `NotKeyed` if it changed after this process had begun to import it."""
    digest = sha256()
    for layer in LAYERS:
        folder = Path(next(iter(import_module(layer).__path__)))
        for path in sorted(folder.rglob("*.py")):
            if path.stat().st_mtime > _STARTED:
                raise NotKeyed("Bascule's own source changed while it ran")
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
