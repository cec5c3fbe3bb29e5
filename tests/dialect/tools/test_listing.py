"""The lists of `bascule-opt`, and the help on one pass."""

import ctypes
from pathlib import Path

import pytest
from bascule.dialect import passes
from bascule.dialect.errors import UserError
from bascule.dialect.ir import context
from bascule.dialect.mlir import c_library
from bascule.dialect.tools import listing, opt


def loaded_dialects() -> int:
    """How many dialects a context has, by MLIR's own count."""

    class Context(ctypes.Structure):
        _fields_ = [("pointer", ctypes.c_void_p)]

    ctx = context()
    ctx.load_all_available_dialects()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    count = ctypes.CDLL(c_library()).mlirContextGetNumLoadedDialects
    count.restype, count.argtypes = ctypes.c_ssize_t, [Context]
    return count(Context(pointer(ctx._CAPIPtr, b"torch_mlir.ir.Context._CAPIPtr")))


def test_all_dialects_are_listed():
    assert len(listing.dialects()) == loaded_dialects()


def test_all_passes_of_mlir_that_are_listed_are_there():
    names = Path(listing.__file__).with_name("upstream_passes.txt").read_text().split()
    assert list(listing.upstream_passes()) == names == sorted(names)
    assert {"canonicalize", "cse", "convert-vector-to-llvm", "symbol-dce"} <= {*names}
    assert {f"  --{name}" for name in (*names, *passes.names())} <= {
        line.partition("=")[0] for line in listing.pass_list()
    }


@pytest.mark.parametrize("name", passes.names())
def test_there_is_help_on_each_pass_of_ours(name):
    told = listing.help_on(name)
    assert told.startswith(f"--{name}: ") and ".py:" in told.splitlines()[0]
    assert all(f"  {option}=" in told for option in passes.find(name).option_defaults())


def test_help_on_a_pass_of_mlir_has_its_options(capsys):
    assert opt.main(["--help=canonicalize"]) == 0
    told = capsys.readouterr().out
    assert "https://mlir.llvm.org/docs/Passes/#-canonicalize" in told and "  max-iterations=10\n" in told


def test_help_on_no_pass_names_one_that_is():
    with pytest.raises(UserError, match="did you mean canonicalize"):
        listing.help_on("canonicalise")
