"""The key of a compiled graph: everything that decides what is compiled, and nothing that does not.

That is the imported IR, what its conversion looks at besides (rules of the user's), the pipeline, the options that
change code, the versions of what compiles, and the machine. The user's lines are not in it: they are numbered in the IR's text, and an entry
keeps their numbers, so that equal graphs of different lines share it, each with notes and comments that name its own lines.
"""

import re
from collections.abc import Iterator
from typing import Any

from torch.fx import GraphModule

from bascule.frontend.aot.graph_key import NotKeyed
from bascule.frontend.conversion.registry import users_rules
from bascule.frontend.fx.operator_effects import only_begins

from ..compat.operators.schemas import OpOverload, has_kernel
from ..dialect.mlir import ir
from ..dialect.passes import Pass, Pipeline, UpstreamPass
from ..options import Options
from .keys import digest, seen
from .versions import versions

FORMAT = 3  # of entries, and of what a key covers
# Options that the pipeline's text or the IR shows, or that do not change what is compiled.
UNSEEN = ("pipeline", "fallback", "cudagraphs", "profiler_mark_wrapper_call")
READS_FILES = "transform-library-paths"  # an option of passes of MLIR's
_PLACE = re.compile(r'loc\("([^"]*)":(\d+):(\d+)(?: to :\d+)?\)')
_UNSAFE = re.compile(r"[^\x20-\x7e]|['\"\\]")


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


def users_code(pipeline: Pipeline, options: Options) -> list[tuple[str, str]]:
    """The passes and hooks that do not come with Bascule, each with what stands for its code. Raises `NotKeyed` for one without that."""
    found = []
    for stage in pipeline.stages:
        if isinstance(stage, UpstreamPass) and READS_FILES in stage.text:
            raise NotKeyed(f"'{stage.name}' reads a file")
        if isinstance(stage, Pass) and not type(stage).__module__.startswith("bascule."):
            found.append((stage.name, stage.uuid()))
    if options.hooks is not None:
        found.append((type(options.hooks).__name__, options.hooks.uuid()))
    keyed = [(name, uuid) for name, uuid in found if uuid is not None]
    if len(keyed) < len(found):
        name = next(name for name, uuid in found if uuid is None)
        kind = "are hooks" if name == type(options.hooks).__name__ else "is a pass"
        raise NotKeyed(f"'{name}' {kind} of the user's own, without a version or a uuid")
    return keyed


def key_of(text: str, gm: GraphModule, pipeline: Pipeline, options: Options, machine: Any) -> str:
    """The key of `gm`, imported as `text`. `machine`: what the target is, as JSON takes it. Raises `NotKeyed`."""
    unknown, rules = users_rules()
    if unknown is not None:
        raise NotKeyed(f"the rule of '{unknown}' has no version")
    code = [users_code(pipeline, options), rules]
    chosen = {name: value for name, value in seen(options, UNSEEN).items() if not callable(value)}
    return digest([FORMAT, str(pipeline), code, chosen, machine, versions(), sorted(set(_schemas(gm)))], text)


def _schemas(gm: GraphModule) -> Iterator[str]:
    """Of the operators that do not come with PyTorch: another process may have others under the same names. All overloads are told of, for one
    may be called in the place of another (`frontend/conversion/out_overloads.py`)."""
    for node in gm.graph.nodes:
        for target in (node.target, *node.args[:2]):
            if isinstance(target, OpOverload) and target.namespace not in ("aten", "prims"):
                packet = target._overloadpacket
                yield from map(_told, (getattr(packet, overload) for overload in packet.overloads()))


def _told(operator: OpOverload) -> str:
    tags, writes = sorted(map(str, operator.tags)), has_kernel(operator.name(), "CPU")
    return f"{operator._schema} {tags} {writes} {only_begins(operator)}"
