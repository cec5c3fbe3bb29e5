"""`bascule-run`: executes IR of any stage on seeded inputs, and checks that a pipeline does not change the results."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from bascule.dialect.interpreter import Comparison
from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import registry
from bascule.dialect.steering.asking import steered_by
from bascule.dialect.steering.loading import load_hooks
from bascule.dialect.tools.bytecode import read_ir
from bascule.dialect.tools.command import command
from bascule.dialect.tools.parsing import chunks, parse
from bascule.errors import UserError

from ..debugging.run_program import is_program
from ..replay.saved_inputs import read_inputs
from ..reporting.module_identity import title_of
from .bisect import first_difference
from .checking import Check, after
from .command_line import CommandLine, seed, unregistered
from .errors import told


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandLine(
        prog="bascule-run",
        description="Executes IR on seeded random inputs. With --pipeline it is executed before and after, and the "
        "results are compared: 'match' with the largest error, or 'mismatch' and exit status 1. A file may have several modules, "
        "with lines '// -----' between them, as bascule-import --grad prints the two of a training step.",
        epilog="Integers come from [-8, 8), or from the argument attribute bascule.range = [low, high].",
    )
    parser.add_argument("file", help="a file of MLIR text, or - for the standard input")
    parser.add_argument("--function", metavar="NAME", help="which function (default: the only graph function, or main)")
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument(
        "--inputs",
        metavar="FILE",
        help="the inputs: inputs.json or inputs.pt of a dump, or a list of tensors and integers that torch.save wrote",
    )
    parser.add_argument("--shapes", default="", metavar="s0=4,s1=7", help="sizes of the symbols")
    parser.add_argument(
        "--pipeline",
        metavar="PASSES",
        help="the passes to check, in bascule-opt's spelling, or 'default': those that torch.compile runs",
    )
    parser.add_argument(
        "--load-pass", action="append", default=[], metavar="MODULE:CLASS", help="a pass to know; or FILE.py:CLASS"
    )
    unregistered(parser)
    parser.add_argument("--load-hooks", metavar="MODULE:CLASS", help="a plug-in that takes decisions of passes")
    parser.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="E",
        help="largest relative error, absolute below 1, against the input evaluated in its own precision (default: each "
        "element by what rounding does to it, against the input evaluated in f64)",
    )
    parser.add_argument("--print", action="store_true", dest="print_results", help="print the results in full")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--compare", action="store_true", help="compile the IR too, whatever its stage (default: at the program stage)"
    )
    how.add_argument(
        "--bisect",
        action="store_true",
        help="interpret after each pass of --pipeline: name the first one after which results differ, with the two IRs",
    )
    how.add_argument("--interpret-only", action="store_true", help="never compile")
    return parser.parse_args(argv)


def tolerance(text: str) -> float:
    """A number that is not negative. Raises ValueError for another, as argparse wants it."""
    number = float(text)
    if not number >= 0:
        raise ValueError(text)
    return number


def parse_shapes(text: str) -> dict[str, int]:
    """`s0=4,s1=7` as a dictionary. Raises `UserError` for text that does not parse."""
    sizes = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not (equals and re.fullmatch(r"\s*\d{1,18}\s*", value)):
            raise UserError(f"'{part}' is not symbol=size", location="--shapes")
        sizes[name.strip()] = int(value)
    return sizes


def load(file: str, *, unregistered: bool = False) -> ir.Module:
    """The module in `file`; `unregistered`: operations of any dialect are taken. Raises `UserError` for a file that is not there or text that is
    not valid IR."""
    with context(unregistered=unregistered):
        return parse(_text_of(file, unregistered), file)


def load_all(file: str, *, unregistered: bool = False) -> list[ir.Module]:
    """The modules in `file`, which may have lines `// -----` between them. Raises as `load` does."""
    text = _text_of(file, unregistered)
    parts = list(chunks(text))
    if len(parts) == 1:
        with context(unregistered=unregistered):
            return [parse(text, file)]
    modules = []
    for part, line in parts:
        if part.strip():
            with context(unregistered=unregistered):
                modules.append(parse("\n" * (line - 1) + part))  # at the lines that it has in the file
    if not modules:
        raise UserError(f"there is no module in '{file}'")
    return modules


def _text_of(file: str, unregistered: bool) -> str:
    if file != "-" and not Path(file).exists():
        raise UserError(f"there is no file '{file}'")
    try:
        return read_ir(file, unregistered=unregistered)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read '{file}': {error}") from error


def report(values: Sequence[torch.Tensor], print_results: bool) -> None:
    """A line a result; in full with `print_results`."""
    for number, value in enumerate(values):
        dtype = str(value.dtype).removeprefix("torch.")
        print(f"result {number}: {dtype}{list(value.shape)} strides {list(value.stride())}")
        if print_results:
            print(value.tolist())


def judge(what: str, outcome: Comparison, check: Check) -> int:
    """Prints how a run compares; returns the exit status."""
    if not outcome.match:
        print(f"mismatch ({what}): max error {outcome.max_error:.1e}")
        print("\n".join(f"  {line}" for line in outcome.differences))
        return 1
    print(f"match ({what}): {len(check.reference.own)} tensors, max error {outcome.max_error:.1e}")
    if check.tolerance is None:
        print(*(f"  {line}\n" for line in check.reference.unclear()), sep="", end="")
    return 0


def run(arguments: argparse.Namespace) -> int:
    for spec in arguments.load_pass:
        registry.load(spec)
    with steered_by(None if arguments.load_hooks is None else load_hooks(arguments.load_hooks)):
        return run_modules(arguments)


def run_modules(arguments: argparse.Namespace) -> int:
    """Runs the modules of the file one by one; returns the exit status."""
    if arguments.bisect and arguments.pipeline is None:
        raise UserError(
            "there are no passes to look at", location="--bisect", hint="give --pipeline, or --pipeline=default"
        )
    modules, status = load_all(arguments.file, unregistered=arguments.allow_unregistered_dialect), 0
    if len(modules) > 1 and arguments.inputs is not None:
        raise UserError(f"is for one module, and there are {len(modules)}", location="--inputs")
    for number, module in enumerate(modules):
        if len(modules) > 1:
            print(f"module {number}: {title_of(module) or 'without a name'}")
        status = max(status, run_module(module, arguments))
    return status


def run_module(module: ir.Module, arguments: argparse.Namespace) -> int:
    """Runs one module, as the command line asks; returns the exit status."""
    check = Check(
        module,
        arguments.function,
        seed=arguments.seed,
        shapes=parse_shapes(arguments.shapes),
        tolerance=arguments.tolerance,
        inputs=None if arguments.inputs is None else read_inputs(arguments.inputs),
    )
    status = 0
    if arguments.bisect:
        found = first_difference(check, module, arguments.pipeline)
        print(found.told())
        return int(found.outcome is not None)
    if arguments.pipeline is None:
        report(check.results, arguments.print_results)
    else:
        module = after(module, arguments.pipeline)
        outcome, results = check.interpreted(module)
        if arguments.print_results:
            report(results, True)
        status = judge("interpreted", outcome, check)
    if arguments.interpret_only or not (arguments.compare or is_program(module)):
        return status
    return judge("compiled", check.compiled(module), check) or status


@command("bascule-run")
def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for a mismatch or an error that was printed."""
    try:
        return run(_arguments(argv))
    except BrokenPipeError:  # of the standard output
        raise
    except Exception as error:  # a pass's own, whatever it is
        pass_on(error)
        print(f"bascule-run: error: {told(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
