"""`bascule-import file.py:function`: the IR of a Python function at a stage of the compiler."""

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bascule.dialect.interrupts import pass_on
from bascule.dialect.printing.forms import PRETTY, printed
from bascule.dialect.tools.command import command
from bascule.dialect.tools.command_line import writable
from bascule.dialect.tools.output import write
from bascule.dialect.user_classes import import_script
from bascule.errors import BasculeError, UserError

from ..pipelines import STAGES
from .command_line import CommandLine


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandLine(
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
    if not Path(file).is_file():
        raise UserError(f"there is no file '{file}'", location=spec, hint="give it as file.py:function")
    try:
        module = import_script(file)
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
        from .example_inputs import parse_inputs  # PyTorch: no help and no wrong name waits for it

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


@command("bascule-import")
def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 1 with the error on the standard error."""
    args = _arguments(argv)
    try:
        if args.o != "-":
            writable(args.o, "-o")
        function, module = load_function(args.function)
        inputs = inputs_for(function, module, args.inputs, grad=args.grad)
        from ..options import Options
        from .graphs_at_stage import import_function  # Dynamo: three seconds

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


if __name__ == "__main__":
    sys.exit(main())
