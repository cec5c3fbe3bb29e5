"""The MLIR that Bascule runs on: the only module that names the package it comes from.

To move to another build of MLIR's Python bindings, change the imports below and nothing else.
Checked on torch-mlir 20261001.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from .roomy_threads import with_room

# Registers all passes, of which one takes 300 KiB of stack; what is imported after it does not.
with_room(lambda: import_module("torch_mlir.ir"))

from torch_mlir import ir, passmanager, rewrite  # noqa: E402
from torch_mlir._mlir_libs import _mlir  # noqa: E402
from torch_mlir._mlir_libs._torchMlir import register_dialect as register_torch_dialect  # noqa: E402
from torch_mlir.dialects import (  # noqa: E402
    affine,
    arith,
    bufferization,
    builtin,
    ext,
    func,
    math,
    memref,
    scf,
    tensor,
)

# To make a Python object of an op, the bindings import a module named after its dialect. A module that is not there is looked for on
# the whole import path at every op of the dialect, 30 us each; one that is there is imported once. Ours come first.
_mlir.globals.dialect_search_modules = [f"{__package__}.bindings", *_mlir.globals.dialect_search_modules]

OperationBase = _mlir.ir._OperationBase  # what has the methods of all operations, typed or not


def c_library() -> str:
    """The path of the library with MLIR's C API, on which the bindings are built."""
    return str(Path(_mlir.__file__).with_name("libTorchMLIRAggregateCAPI.so"))


def debug_upstream(passes: Sequence[str]) -> None:
    """Has MLIR's own code print what it debugs passes by; only a debug build has any."""
    _mlir.ir._GlobalDebug.flag = True
    _mlir.ir._GlobalDebug.set_types(list(passes))


def fx_importer():
    """The module of torch-mlir's `FxImporter`, imported when first asked for (it takes 0.3 s)."""
    from torch_mlir.extras import fx_importer

    return fx_importer


__all__ = [
    "OperationBase",
    "affine",
    "arith",
    "bufferization",
    "builtin",
    "c_library",
    "debug_upstream",
    "ext",
    "func",
    "fx_importer",
    "ir",
    "math",
    "memref",
    "passmanager",
    "register_torch_dialect",
    "rewrite",
    "scf",
    "tensor",
]
