"""Lists of `bascule-opt`: passes of Bascule, of MLIR and of other kinds, dialects; and the help on one pass."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from .. import passes
from ..errors import UserError
from ..failures.culprits import written_at
from ..ir import context
from ..mlir import passmanager
from ..passes.stages import STAGE_NAMES
from ..passes.upstream import defaults

PASS_LISTS = "bascule.pass_lists"  # the entry points of functions without arguments that give lines: a title and passes

# The bindings have no list of dialects. These are all that MLIR and torch-mlir have had; those that are there are shown.
_DIALECTS = re.findall(
    r"\w+",
    """acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bascule bufferization builtin cf chlo complex dlti emitc func gpu index irdl
    linalg llvm math memref ml_program mpi nvgpu nvvm omp pdl pdl_interp ptr quant rocdl scf shape shard smt sparse_tensor spirv stablehlo
    tensor tm_tensor torch torch_c tosa transform ub vcix vector vhlo wasmssa x86 x86vector xegpu xevm""",
)


def dialects() -> list[str]:
    """The dialects that can be parsed."""
    ctx = context()
    ctx.load_all_available_dialects()
    return [name for name in _DIALECTS if ctx.is_dialect_loaded(name)]


@cache
def upstream_passes() -> tuple[str, ...]:
    """MLIR's own passes, and torch-mlir's, that are in this build of it. The bindings have no list: the file beside this one was made of the
    strings of their library (torch-mlir 20261001)."""
    names = Path(__file__).with_name("upstream_passes.txt").read_text().split()
    with context():
        return tuple(name for name in names if _parsed(name) is not None)


def _parsed(name: str) -> str | None:
    """MLIR's spelling of one of its passes in the current context, with all options at their defaults; None where it has no such pass."""
    try:
        return str(passmanager.PassManager.parse(f"any({name})"))
    except ValueError:
        return None


def pass_list() -> Iterator[str]:
    """Lines: each pass with its options, and the first sentence of what it does; MLIR's by name; the lists of passes of other kinds."""
    for name in passes.names():
        try:
            cls = passes.find(name)
        except UserError as error:  # of another package: the others are listed all the same
            yield f"  --{name}\n      {error}"
            continue
        if cls is not None:
            options = ",".join(f"{key}={_spelled(default)}" for key, default in cls.option_defaults().items())
            yield f"  --{name}={options}" if options else f"  --{name}"
            sentence = re.split(r"(?<=\.)\s|\n\s*\n", inspect.cleandoc(cls.__doc__ or ""))[0]
            yield textwrap.fill(sentence, 120, initial_indent=" " * 6, subsequent_indent=" " * 6)
    yield ""
    yield "passes of MLIR and torch-mlir (--help=PASS: the options of one)"
    yield from (f"  --{name}" for name in upstream_passes())
    for entry in entry_points(group=PASS_LISTS):
        yield ""
        yield from entry.load()()


def help_on(name: str) -> str:
    """The help on the pass `name`. Raises `UserError` where nobody has one."""
    cls = passes.find(name)
    if cls is None:
        return _help_on_upstream(name)
    lines = [f"--{name}: {written_at(cls)}", "", inspect.cleandoc(cls.__doc__ or "")]
    options = cls.option_defaults()
    if options:
        lines += ["", "options", *(f"  {key}={_spelled(default)}" for key, default in options.items())]
    if cls.takes:
        lines += ["", f"takes {STAGE_NAMES[cls.takes]}"]
    return "\n".join(lines)


def _help_on_upstream(name: str) -> str:
    options = defaults(name)
    if options is None:
        alike = get_close_matches(name, [*passes.names(), *upstream_passes()], n=1)
        hint = f"did you mean {alike[0]}? " if alike else ""
        raise UserError(f"'{name}' is not a pass", location="--help", hint=f"{hint}--list-passes")
    shown = ["", "options, but for lists", *(f"  {option}" for option in options)] if options else []
    return "\n".join([f"--{name}: MLIR's, see https://mlir.llvm.org/docs/Passes/#-{name}", *shown])


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "..." if value is MISSING else str(value)
