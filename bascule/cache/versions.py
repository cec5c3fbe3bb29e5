"""The versions of everything that decides what is compiled: a part of each key of the disk cache. Nothing here needs a compiler."""

import sys
from collections.abc import Iterator
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
    for path, name in _sources():
        if path.stat().st_mtime > BEGAN:
            raise NotKeyed("Bascule's own source changed while it ran")
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[tuple[Path, str]]:
    """The files, each with its name within its layer. (Of a checkout the first folder of a layer's `__path__` may have what is built alone.)"""
    for layer in LAYERS:
        told = import_module(layer).__file__
        assert told is not None  # each has an `__init__.py`
        folder = Path(told).parent
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".toml")):
            yield path, path.relative_to(folder).as_posix()
