"""`bascule-run`: executes IR of any stage on seeded inputs, and checks that a pipeline does not change the results."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from bascule.dialect.interpreter import compare, interpret, random_inputs
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline, registry
from bascule.dialect.tools.parsing import parse
from bascule.errors import BasculeError, UserError

from ..debugging.compare_results import copied
from ..pipelines import DEFAULT
from .execution import Inputs, is_program, returned, run_compiled


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bascule-run",
        description="Executes IR on seeded random inputs. With --pipeline it is executed before and after, and the "
        "results are compared: 'match' with the largest error, or 'mismatch' and exit status 1.",
        epilog="Integers come from [-8, 8), or from the argument attribute bascule.range = [low, high].",
    )
    parser.add_argument("file", help="a file of MLIR text, or - for the standard input")
    parser.add_argument("--function", metavar="NAME", help="which function (default: the only graph function, or main)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", default="", metavar="s0=4,s1=7", help="sizes of the symbols")
    parser.add_argument(
        "--pipeline",
        metavar="PASSES",
        help="the passes to check, in bascule-opt's spelling, or 'default': those that torch.compile runs",
    )
    parser.add_argument("--load-pass", action="append", default=[], metavar="MODULE:CLASS", help="a pass to know")
    parser.add_argument("--tolerance", type=float, help="largest relative error (default: by dtype)")
    parser.add_argument("--print", action="store_true", dest="print_results", help="print the results in full")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--compare", action="store_true", help="compile the IR too, whatever its stage (default: at the program stage)"
    )
    how.add_argument("--interpret-only", action="store_true", help="never compile")
    return parser.parse_args(argv)


def parse_shapes(text: str) -> dict[str, int]:
    """`s0=4,s1=7` as a dictionary. Raises `UserError` for text that does not parse."""
    sizes = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not (equals and value.strip().isdigit()):
            raise UserError(f"'{part}' is not symbol=size", location="--shapes")
        sizes[name.strip()] = int(value)
    return sizes


def load(file: str) -> ir.Module:
    """The module in `file`. Raises `UserError` for a file that is not there or text that is not valid IR."""
    if file != "-" and not Path(file).is_file():
        raise UserError(f"there is no file '{file}'")
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read '{file}': {error}") from None
    with context():
        return parse(text, file)


def after(module: ir.Module, pipeline: str) -> ir.Module:
    """A copy of `module` that `pipeline` has run on: passes, or "default"."""
    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
    if pipeline == "default":
        pipeline = ",".join(DEFAULT if in_torch_dialect(module) else DEFAULT[DEFAULT.index("torch-to-bascule") + 1 :])
    Pipeline.parse(pipeline).run(copy, verify=True)
    return copy


def results(module: ir.Module, inputs: Inputs, function: str | None) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Runs the reference interpreter; returns its results, and the tensor inputs as it leaves them."""
    own = [copied(value) for value in inputs]
    return interpret(module, own, function), tensors(own)


def tensors(values: Inputs) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def report(values: Sequence[torch.Tensor], print_results: bool) -> None:
    """A line a result; in full with `print_results`."""
    for number, value in enumerate(values):
        dtype = str(value.dtype).removeprefix("torch.")
        print(f"result {number}: {dtype}{list(value.shape)} strides {list(value.stride())}")
        if print_results:
            print(value.tolist())


def judge(what: str, expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor], tolerance: float | None) -> int:
    """Prints how `actual` compares; returns the exit status."""
    outcome = compare(expected, actual, tolerance)
    if outcome.match:
        print(f"match ({what}): {len(expected)} tensors, max error {outcome.max_error:.1e}")
        return 0
    print(f"mismatch ({what}): max error {outcome.max_error:.1e}")
    print("\n".join(f"  {line}" for line in outcome.differences))
    return 1


def run(arguments: argparse.Namespace) -> int:
    for spec in arguments.load_pass:
        registry.load(spec)
    module, function = load(arguments.file), arguments.function
    start = after(module, "torch-to-bascule") if in_torch_dialect(module) else module
    inputs = random_inputs(start, function, seed=arguments.seed, shapes=parse_shapes(arguments.shapes))
    expected, changed = results(start, inputs, function)
    status = 0
    if arguments.pipeline is None:
        report(expected, arguments.print_results)
    else:
        module = after(module, arguments.pipeline)
        actual, actually_changed = results(module, inputs, function)
        if arguments.print_results:
            report(actual, True)
        both = [*expected, *changed], [*actual, *actually_changed]
        status = judge("interpreted", *both, arguments.tolerance)
    if arguments.interpret_only or not (arguments.compare or is_program(module)):
        return status
    own = [copied(value) for value in inputs]
    outputs = run_compiled(module, own)
    both = [*returned(module, expected), *changed], [*outputs, *tensors(own)]
    return judge("compiled", *both, arguments.tolerance) or status


def in_torch_dialect(module: ir.Module) -> bool:
    return any("!torch." in str(function.attributes["function_type"]) for function in graph_functions(module))


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for a mismatch or an error that was printed, 2 for a bad command line."""
    try:
        return run(_arguments(argv))
    except (BasculeError, ir.MLIRError) as error:
        print(f"bascule-run: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
