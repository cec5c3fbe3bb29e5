"""Backends for looking into the compiler: `torch.compile(f, backend="bascule_debug", options={"stage": "kernel"})`.

bascule_nop     runs the graphs' ATen operators as they are: is it AOTAutograd, or our compiler?
bascule_debug   checks every node against its metadata, and runs the IR of a stage with the reference interpreter: which stage is wrong?
bascule_print   prints each graph and its IR at a stage
bascule_draw    draws each graph at a stage with Graphviz: kernels as boxes, tensors as edges with their bytes
bascule_dump    saves each graph as a file that compiles it again

Debug, print and draw take `stage` among their options: a stage, or a pass of the option `pipeline`, which they follow. Draw and dump take
`directory`; other options, and modes, are those of the backend `bascule`.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.importer.graph import ImportedGraph
from bascule.frontend.partitioner.min_cut import min_cut
from bascule.runtime.boxed import Boxed, boxed

from ..compiled.eager import in_sequence, operator_by_operator
from ..compiler.autograd_graph import compile_autograd_graph, direction_of
from ..compiler.decompositions import decompositions_for
from ..compiler.fx_passes import fx_pipeline
from ..debugging.accuracy import disagreements
from ..debugging.checked_interpreter import CheckedInterpreter
from ..debugging.compare_results import copied, copy_of, draws
from ..debugging.drawing import draw, svg_of
from ..debugging.reproducer_graph import deciding_inputs, write_graph
from ..dialect.failures.culprits import called, is_foreign
from ..dialect.interpreter import interpret_graph
from ..dialect.interrupts import pass_on
from ..errors import CompilerError, UserError
from ..option_checks import check_writable
from ..options import make_options
from ..pipelines import STAGES, TORCH_TO_BASCULE, up_to
from ..reporting.compile_record import log, text_of
from ..reporting.dump_files import written
from ..reporting.raise_through_dynamo import raised_as_is
from ..user_paths import user_path
from .looked_at import Look, Place, looked_at

_numbers = count()


def bascule_nop(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The graphs that AOTAutograd makes with our decompositions, their operators called one by one."""
    with raised_as_is():
        checked = make_options(mode, options)
        passes = fx_pipeline(f"graph{next(_numbers)}", checked)

    def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **directions: bool) -> Any:
        return operator_by_operator(gm)

    return compile_with_autograd(gm, example_inputs, compiler, decompositions_for(checked), passes=passes)


def bascule_debug(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Each call runs the graph's operators, checks each result's dtype, sizes and strides against its metadata, then interprets the IR
    of `stage` (default: program; "torch" has no interpreter), or what a pass leaves that `stage` names, and compares.

    Raises `MetadataMismatch` that names the node, or `CompilerError` that names the stage. Random numbers differ between the two by design: a
    graph that draws them is only checked against its metadata.
    """
    return _with_stage(gm, example_inputs, mode, options, "program", tuple(STAGES), _debugged, compiled=False)


def bascule_print(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Prints each graph as FX code and its IR at `stage` (default: tensor), or after a pass that it names, then compiles it."""
    return _with_stage(gm, example_inputs, mode, options, "tensor", tuple(STAGES), _printed)


def bascule_draw(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Writes `<directory>/<graph>.svg` for each graph, as it is at `stage` (tensor or kernel, the default), or after a pass up to
    there that it names, then compiles it. Where Graphviz's
    program `dot` is not installed, or fails, it writes `<graph>.dot`. `directory` is an option of this backend; default: where the process
    runs.
    """
    with raised_as_is():
        directory, given = _directory(options, ".")
    return _with_stage(gm, example_inputs, mode, given, "kernel", ("tensor", "kernel"), partial(_drawn, directory))


def _directory(options: Mapping[str, Any] | None, default: str) -> tuple[Path, dict[str, Any]]:
    """The option `directory`, and the others."""
    given = _given(options)
    directory = given.pop("directory", default)
    if not isinstance(directory, str | Path):
        raise UserError(f"takes str, got {directory!r}", location="option 'directory'")
    place = user_path(directory, "option 'directory'") if directory else str(directory)
    check_writable(place, "directory")
    return Path(place), given


def _given(options: Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(options or {}, Mapping):
        make_options(None, options)  # which refuses them
    return dict(options or {})


def _with_stage(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    options: Mapping[str, Any] | None,
    default: str,
    stages: Sequence[str],
    look: Look,
    *,
    compiled: bool = True,
) -> Callable[..., Any]:
    """AOTAutograd, each of whose graphs is given to `look`, and is then `compiled`, or runs as that says."""
    with raised_as_is():
        given = _given(options)
        stage = given.pop("stage", default)
        checked, name = make_options(mode, given), f"graph{next(_numbers)}"
        known = [*stages, *(each.name for each in up_to(stages[-1], checked).stages)]
        if stage not in known:
            known = list(dict.fromkeys(known))
            raise UserError(f"has no value '{stage}'", location="option 'stage'", hint=f"known: {', '.join(known)}")
        passes = fx_pipeline(name, checked)

        def compiler(gm: torch.fx.GraphModule, inputs: Sequence[Any], **directions: Any) -> Any:
            run = looked_at(f"{name}_{direction_of(**directions)}", stage, checked, gm, inputs, look)
            if not compiled:
                return run
            return compile_autograd_graph(name, checked, None, gm, inputs, passes=passes, **directions)

        return compile_with_autograd(gm, example_inputs, compiler, decompositions_for(checked), passes=passes)


def _printed(place: Place, imported: ImportedGraph, gm: torch.fx.GraphModule) -> Boxed:
    print(f"// {place.title}")
    print("\n".join(f"// {line}" for line in gm.code.strip().splitlines()))
    print(text_of(imported.module))
    return operator_by_operator(gm)


def _drawn(directory: Path, place: Place, imported: ImportedGraph, gm: torch.fx.GraphModule) -> Boxed:
    dot = draw(imported.module, place.title)
    try:
        svg, told = svg_of(dot), "DOT: Graphviz's program 'dot', which makes SVG of it, is not installed"
    except (OSError, subprocess.CalledProcessError) as error:
        pass_on(error)
        svg, told = None, f"DOT: Graphviz made no SVG of it, {error}"
    path = directory / f"{place.title}.{'dot' if svg is None else 'svg'}"
    if written(path, dot if svg is None else svg):
        print(f"bascule_draw: {path}{f' ({told})' if svg is None else ''}")
    return operator_by_operator(gm)


def _debugged(place: Place, imported: ImportedGraph, gm: torch.fx.GraphModule) -> Boxed:
    metadata_alone = draws(gm) or all(each.name != TORCH_TO_BASCULE for each in place.passes.stages)
    suspects = [called(each) for each in place.passes.stages if is_foreign(each)]

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        values = list(args)
        args.clear()
        with raised_as_is():
            first, again = ([copied(value) for value in values] for _ in range(2))
            outputs = in_sequence(CheckedInterpreter(gm).run(*values))
            if not metadata_alone:
                got = interpret_graph(imported.module, again, imported.constants)
                if found := disagreements(gm, first, [*outputs, *values], [*got, *again]):
                    told = "\n  ".join(found)
                    raise CompilerError(
                        f"{place} computes other values than its operators:\n  {told}", suspects=suspects
                    )
                log.info("%s computes what its operators do", place)
            return outputs

    return run


def bascule_dump(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles as `bascule` does, and saves the captured, joint, forward, backward and inference graphs in `directory` (default:
    `bascule_graphs`). With `data` the inputs of the compiled ones are saved as they are at the first call, else their sizes, strides and dtypes,
    and the elements that decide sizes.
    """
    with raised_as_is():
        directory, given = _directory(options, "bascule_graphs")
        data = given.pop("data", False)
        if not isinstance(data, bool):
            raise UserError(f"takes bool, got {data!r}", location="option 'data'")
        checked, name = make_options(mode, given), f"graph{next(_numbers)}"
        passes = fx_pipeline(name, checked)
        written(directory / f"{name}_captured.py", gm.print_readable(print_output=False))

        def split(joint: torch.fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
            written(directory / f"{name}_joint.py", joint.print_readable(print_output=False))
            return min_cut(joint, inputs, passes=passes, **kwargs)

        def compiler(gm: torch.fx.GraphModule, inputs: Sequence[Any], **directions: Any) -> Any:
            direction = direction_of(**directions)
            path = directory / f"{name}_{direction}.py"
            write_graph(path, gm, direction, checked)
            print(f"bascule_dump: {path}")
            again = partial(write_graph, path, copy_of(gm), direction, checked, data=data)
            compiled = compile_autograd_graph(name, checked, None, gm, inputs, passes=passes, **directions)
            return _told_inputs(compiled.call, again) if data or deciding_inputs(gm) else compiled

        return compile_with_autograd(gm, example_inputs, compiler, decompositions_for(checked), split, passes=passes)


def _told_inputs(compiled: Boxed, tell: Callable[[list[Any]], None]) -> Boxed:
    """`compiled`, whose first call also tells its inputs."""
    told = False

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        nonlocal told
        if not told:
            told = True
            tell(args)
        return compiled(args)

    return run
