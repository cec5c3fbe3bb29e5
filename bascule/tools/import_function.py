"""`bascule-import file.py:function`: the IR of a Python function at a stage of the compiler."""

import argparse
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import context
from bascule.dialect.last_words import speak
from bascule.dialect.printing.forms import PRETTY, printed
from bascule.dialect.tools.output import write
from bascule.errors import BasculeError, UserError
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx.trace_context import compile_at_hand
from bascule.frontend.importer.graph import import_graph

from ..compat.graphs.dynamo import reset
from ..compat.tensors.pytree import tree_leaves
from ..compiled.eager import operator_by_operator
from ..compiler.autograd_graph import direction_of
from ..options import Options
from ..pipelines import STAGES, up_to
from ..reporting.module_identity import identify
from ..reporting.raise_through_dynamo import TorchDynamoException, raised_as_is
from .example_inputs import parse_inputs


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bascule-import",
        description="Prints the IR of a Python function (or nn.Module) at a stage of the compiler.",
        epilog="Example inputs come from --inputs, else from an attribute `example_inputs` of the function, else from "
        "a function `example_inputs()` of its file: a list or tuple of tensors, or a callable that returns one.",
    )
    parser.add_argument("function", help="file.py:name")
    parser.add_argument(
        "--stage",
        choices=list(STAGES),
        default="torch",
        help="the stage to print (default: torch); tensor: as torch-to-bascule leaves it, before fusion",
    )
    parser.add_argument("--inputs", metavar="TYPES", help="seeded random tensors, like f32[4,8],i64[3]")
    parser.add_argument("--grad", action="store_true", help="the graphs of a training step: forward, then backward")
    parser.add_argument("--dynamic", action="store_true", help="sizes as symbols")
    parser.add_argument(
        "--target",
        metavar="cpu|sm_NN",
        default="cpu",
        help="what the passes decide for: this CPU, or a GPU (default: cpu)",
    )
    parser.add_argument("--numerics", choices=("f32", "eager"), default="f32", help="see bascule.list_options()")
    parser.add_argument(
        "--print-debuginfo", action="store_true", help="print locations: operators and the user's lines"
    )
    parser.add_argument(
        "--pretty",
        action="store_true",
        help="values named by their operators, sizes in the heads of loops, no aliases; it parses back, or says that it does not",
    )
    parser.add_argument("-o", metavar="FILE", default="-", help="where to write (default: the standard output)")
    args = parser.parse_args(argv)
    if args.pretty and args.print_debuginfo:
        parser.error("there are no locations in the form of --pretty")
    return args


def load_function(spec: str) -> tuple[Callable[..., Any], Any]:
    """The function (or module) that `file.py:name` names, and the Python module of that file.

    Raises `UserError` if there is no such file or name.
    """
    file, colon, name = spec.rpartition(":")
    if not (colon and file and name):
        raise UserError("names no function of a file", location=spec, hint="give it as file.py:function")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file '{file}'", location=spec, hint="give it as file.py:function")
    module_spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    module = importlib.util.module_from_spec(module_spec)  # type: ignore[arg-type]
    try:
        module_spec.loader.exec_module(module)  # type: ignore[union-attr]
    except Exception as error:  # the user's file raises whatever it raises
        pass_on(error)
        said = "".join(traceback.format_exception_only(error)).rstrip()
        raise UserError(f"the file fails:\n{said}", location=file, hint=f"python {file} shows where") from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise UserError(f"'{file}' has no function '{name}'", location=spec, hint=f"known: {', '.join(known)}")
    return function, module


def inputs_for(function: Callable[..., Any], module: Any, text: str | None, *, grad: bool) -> list[Any]:
    """The example inputs: those `text` spells, or those that come with the function or its file."""
    if text is not None:
        return parse_inputs(text, requires_grad=grad)
    given = getattr(function, "example_inputs", None) or getattr(module, "example_inputs", None)
    if given is None:
        raise UserError("no example inputs", hint="give --inputs, or define example_inputs() in the file")
    made = given() if callable(given) else given
    if not isinstance(made, list | tuple):
        raise UserError(
            f"are no list, but {made!r}", location="example_inputs", hint="give a list or a tuple of tensors"
        )
    return list(made)


def check_call(function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Raises `UserError` for inputs that `function` does not take."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        inspect.signature(called).bind(*inputs)
    except TypeError as error:
        hint = f"there are {len(inputs)} example inputs; --inputs gives others"
        raise UserError(f"the function does not take its inputs: {error}", hint=hint) from None
    except ValueError:  # a function without a signature
        pass


def machine_of(target: str) -> dict[str, Any]:
    """The facts that passes are told of `target`: "cpu", this one, or "sm_" and a compute capability. Raises `UserError` for another."""
    if target == "cpu":
        return {}
    if not re.fullmatch(r"sm_\d+a?", target):
        raise UserError(
            f"there is no target '{target}'", location="--target", hint="cpu, or for example sm_80, sm_90, sm_100"
        )
    return {"target": "cuda", "capability": int(re.sub(r"\D", "", target))}


def import_function(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    stage: str,
    options: Options,
    grad: bool,
    dynamic: bool,
    target: str = "cpu",
) -> list[Any]:
    """The modules of `function`'s graphs at `stage`: one, or with `grad` forward and backward. `target`: "cpu", or a GPU as "sm_90".

    Raises `UserError` for inputs and a function that PyTorch does not take, and what the stages raise.
    """
    check_call(function, inputs)
    pipeline, modules = up_to(stage, options, machine_of(target)), []

    def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kind: bool) -> Callable:
        module = import_graph(gm, example_inputs, context=context()).module
        identify(
            module, getattr(function, "__name__", type(function).__name__), direction_of(**kind), compile_at_hand()
        )
        pipeline.run(module)
        modules.append(module)
        return operator_by_operator(gm)

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        with raised_as_is():
            return compile_with_autograd(gm, example_inputs, compiler, decomposition_table())

    reset()
    try:
        with torch.set_grad_enabled(grad):
            out = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic or None)(*inputs)
    except TorchDynamoException as error:
        if isinstance(error, BasculeError):
            raise
        raise UserError(f"Dynamo makes no graph of the function: {type(error).__name__}: {error}") from error
    if grad:  # a backward may be compiled only when it is first needed
        leaves = [leaf for leaf in tree_leaves(out) if getattr(leaf, "requires_grad", False)]
        if not leaves:
            raise UserError(
                "no output needs a gradient", hint="--grad wants floating-point inputs that require gradients"
            )
        torch.autograd.backward(leaves, [torch.ones_like(leaf) for leaf in leaves])
    return modules


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 1 with the error on the standard error."""
    speak()
    args = _arguments(argv)
    try:
        function, module = load_function(args.function)
        inputs = inputs_for(function, module, args.inputs, grad=args.grad)
        options = Options(numerics=args.numerics)
        modules = import_function(
            function,
            inputs,
            stage=args.stage,
            options=options,
            grad=args.grad,
            dynamic=args.dynamic,
            target=args.target,
        )
        printing = {"enable_debug_info": True} if args.print_debuginfo else {PRETTY: args.pretty}
        text = "\n// -----\n".join(printed(module, printing) for module in modules)
        write(f"{text}\n", args.o)
    except (BasculeError, OSError) as error:
        pass_on(error)
        print(f"bascule-import: error: {error}", file=sys.stderr)
        return 1
    return 0
