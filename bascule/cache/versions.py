"""The versions of everything that decides what is compiled: a part of each key of the disk cache. Nothing here needs a compiler."""

import os
import sys
from functools import cache
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path

import torch

from bascule import BEGAN
from bascule.frontend.aot.graph_key import NotKeyed
from bascule.runtime.kernels.processor import instruction_sets, vendor

LAYERS = ("bascule", *(f"bascule.{layer}" for layer in ("frontend", "dialect", "lowering", "runtime")))
# Environment variables that change what Triton and LLVM compile.
_CHANGING = ("TRITON_", "PTXAS_OPTIONS", "DISABLE_PTXAS_OPT", "LLVM_", "USE_IR_LOC")
_PLACES = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR")


def versions() -> dict[str, str]:
    """Of PyTorch, Python, Triton, MLIR, of our own code, of the processor. Raises `NotKeyed`."""
    environment = {
        name: value for name, value in os.environ.items() if name.startswith(_CHANGING) and name not in _PLACES
    }
    return {**_installed(), "environment": str(sorted(environment.items()))}


@cache
def _installed() -> dict[str, str]:
    return {
        **{name: _version(name) for name in ("torch-mlir", "triton")},
        "torch": f"{torch.__version__} {torch.version.git_version}",
        "python": sys.version,
        "bascule": _source_digest(),
        "processor": f"{vendor()} {' '.join(sorted(instruction_sets()))}",
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
            if path.stat().st_mtime > BEGAN:
                raise NotKeyed("Bascule's own source changed while it ran")
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
