"""Graphs that `bascule/debugging/reproducer_graph.py` wrote down, compiled and run again."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from bascule.frontend.fx.trace_context import inside
from bascule.runtime.boxed import Boxed
from bascule.runtime.cudagraphs.recording import Direction

from ..compat.tensors.fake_tensors import FakeTensorMode
from ..debugging.accuracy import disagreements
from ..debugging.compare_results import copied, draws, tensors_of
from ..debugging.symbol_values import symbolic_numbers
from ..dialect import passes
from ..dialect.failures.culprits import written_at
from ..dialect.interrupts import pass_on
from ..dialect.steering.loading import load_hooks
from ..dialect.user_classes import run_file
from ..errors import CompilerError, UserError
from .compile_fx import compile_fx_inner

STRICT = {"on_error": "raise", "cache": False}
SHRUNK = 2**-4  # what inputs are multiplied with where results overflow
SHRINKS = 3


def replay(
    file: str,
    options: Mapping[str, Any] | None = None,
    *,
    direction: Direction = "forward",
    load_pass: Sequence[str] = (),
    hooks: str | None = None,
) -> None:
    """Compiles the graph in `file` for its example inputs, runs it, and compares with its operators called one by one. `load_pass` and `hooks`
    are classes from outside that it is compiled with, `module:Class` or `path/to/file.py:Class`.

    A graph that draws random numbers is compiled with those that its operators draw, too: only then are elements compared. Raises what the
    compiler does, `CompilerError` for other results, and `UserError` where the operators do not take the example inputs.
    """
    foreign = [passes.load(spec) for spec in load_pass]
    if hooks is not None:
        options = {**(options or {}), "hooks": load_hooks(hooks)}
    module = loaded(file)
    gm, _ = traced(module)
    compiled = _compiled(module, direction, options)
    inputs, wanted = _example(file, module)
    got = _ran(compiled, inputs)
    if draws(gm):
        _require_same_kinds(wanted, got)
        got = _ran(_compiled(module, direction, {**(options or {}), "random": "eager"}), inputs)
    if found := disagreements(gm, inputs, wanted, got):
        suspects = [f"your pass '{cls.name}' ({written_at(cls)})" for cls in foreign]
        told = "\n  ".join(["the compiled graph computes other values than its operators:", *found])
        raise CompilerError(told, suspects=suspects)
    print(f"{file}: compiled, and the results are those of its operators{_nothing_said(wanted)}")


def loaded(file: str) -> ModuleType:
    """The module in a file of a graph, run anew each time."""
    return run_file(Path(file), "dumped_graph")


def traced(module: ModuleType) -> tuple[torch.fx.GraphModule, Sequence[Any]]:
    """The graph of a file, with the symbols that its sizes had, and fake inputs."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    seen = {name: x.default for name, x in inspect.signature(module.inputs_of).parameters.items()}
    with inside(mode):
        fakes = module.inputs_of(*symbolic_numbers(seen, env))
        try:
            return make_fx(module.graph)(*fakes), fakes
        except AttributeError as error:
            hint = "operators of a script: import what registers them at the top of the file"
            raise UserError(str(error), location=str(module.__file__), hint=hint) from error


def _compiled(module: ModuleType, direction: Direction, options: Mapping[str, Any] | None) -> Any:
    gm, fakes = traced(module)  # anew: the compiler may change it
    directions = {"is_backward": direction == "backward", "is_inference": direction == "inference"}
    return compile_fx_inner(gm, fakes, options={**(options or {}), **STRICT}, **directions)


def _ran(call: Boxed, inputs: Sequence[Any]) -> list[Any]:
    """Results for copies of `inputs`, and these as they are then."""
    given = [copied(value) for value in inputs]
    torch.manual_seed(0)
    return [*call(list(given)), *given]


def _example(file: str, module: ModuleType) -> tuple[list[Any], list[Any]]:
    """Inputs, and what the operators make of them: results, and the inputs as they leave them. Deep networks of random weights overflow:
    then the inputs are smaller."""
    torch.manual_seed(0)
    inputs = module.example_inputs()
    for _ in range(SHRINKS):
        try:
            wanted = _ran(lambda given: module.graph(*given), inputs)
        except Exception as error:  # whatever operators raise
            pass_on(error)
            message = f"its operators do not take the example inputs: {type(error).__name__}: {error}"
            hint = "it compiles; elements that nobody saved are random or zero: bascule_dump saves all with options={'data': True}"
            raise UserError(message, location=file, hint=hint) from error
        if not _nothing_said(wanted) or Path(file).with_suffix(".pt").exists():  # inputs that were saved stay
            break
        inputs = [_shrunk(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    return inputs, wanted


def _shrunk(x: torch.Tensor) -> torch.Tensor:
    return (x.double() * SHRUNK).to(x.dtype)  # of 8 bits there is no product


def _require_same_kinds(wanted: Sequence[Any], got: Sequence[Any]) -> None:
    kinds = [[(x.dtype, list(x.shape)) for x in tensors_of(values)] for values in (wanted, got)]
    if kinds[0] != kinds[1]:
        raise CompilerError(f"the compiled graph gives tensors {kinds[1]}, its operators {kinds[0]}")


def _nothing_said(results: Sequence[Any]) -> str:
    """The note for results of which most numbers are those that any wrong result has, too."""
    numbers = [x for x in tensors_of(results) if x.is_floating_point()]
    count, finite = sum(x.numel() for x in numbers), sum(int(x.double().isfinite().sum()) for x in numbers)
    return "" if 2 * finite >= count else f" ({count - finite} of {count} numbers are infinite or NaN)"
