"""The versions of everything that decides what is compiled: a part of each key of the disk cache. Nothing here needs a compiler."""

import sys
from functools import cache
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path

import torch

from bascule import BEGAN
from bascule.frontend.aot.graph_key import NotKeyed
from bascule.lowering.environment import changing_environment
from bascule.runtime.kernels.processor import instruction_sets, model, vendor

LAYERS = ("bascule", *(f"bascule.{layer}" for layer in ("frontend", "dialect", "lowering", "runtime")))


def versions() -> dict[str, str]:
    """Of PyTorch, Python, Triton, MLIR, of our own code, of the processor. Raises `NotKeyed`."""
    return {**_installed(), "environment": str(sorted(changing_environment().items()))}


@cache
def _installed() -> dict[str, str]:
    return {
        **{name: _version(name) for name in ("torch-mlir", "triton")},
        "torch": f"{torch.__version__} {torch.version.git_version}",
        "python": sys.version,
        "bascule": _source_digest(),
        "processor": f"{vendor()} {model()} {' '.join(sorted(instruction_sets()))}",
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
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".toml")):
            if path.stat().st_mtime > BEGAN:
                raise NotKeyed("Bascule's own source changed while it ran")
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
