"""`bascule-reduce`: makes a module that fails, and the pipeline that it fails under, as small as they get."""

import argparse
import signal
import sys
from collections.abc import Sequence

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import context
from bascule.dialect.passes import registry
from bascule.dialect.tools.command import command
from bascule.dialect.tools.command_line import writable
from bascule.dialect.tools.output import write
from bascule.errors import UserError

from ..tools.checking import passes
from ..tools.command_line import CommandLine, seconds, seed, unregistered
from ..tools.errors import told
from ..tools.run import load, parse_shapes
from .oracles import TESTS, Oracle, filled
from .search import Search, operations, valid


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandLine(
        prog="bascule-reduce",
        description="Leaves out of a module, and of the passes that run on it, what its failure does not need: functions, results, "
        "operations, arguments, attributes, sizes, passes. Each module that is tried verifies.",
    )
    parser.add_argument("file", help="a file of MLIR text, or - for the standard input")
    parser.add_argument(
        "--test",
        required=True,
        metavar="crash|mismatch|COMMAND",
        help="crash: a pass dies, raises, or leaves IR that does not verify, as it does for FILE. mismatch: bascule-run finds that results "
        "differ. Else a shell command that ends with status 0 if the file {} fails; {pipeline} are the passes",
    )
    parser.add_argument("--pipeline", default="", metavar="PASSES", help="the passes that run, or 'default'")
    parser.add_argument(
        "--load-pass", action="append", default=[], metavar="MODULE:CLASS", help="a pass to know; or FILE.py:CLASS"
    )
    unregistered(parser)
    parser.add_argument("--shapes", default="", metavar="s0=4,s1=7", help="sizes of the symbols, for a mismatch")
    parser.add_argument("--seed", type=seed, default=0, help="of the inputs, for a mismatch")
    parser.add_argument("--timeout", type=seconds, default=60.0, metavar="SECONDS", help="a longer test is no failure")
    parser.add_argument("-o", metavar="FILE", default="-", help="where to write (default: the standard output)")
    return parser.parse_args(argv)


def reduce(arguments: argparse.Namespace) -> tuple[str, int]:
    """The smallest module that still fails as the file does, and the exit status: an interrupt (SIGINT, SIGTERM) leaves the smallest so far, and
    a test that changes its mind one that may not fail. The first line is the command that shows the failure."""
    for spec in arguments.load_pass:
        registry.load(spec)
    module = load(arguments.file, unregistered=arguments.allow_unregistered_dialect)
    with context():
        names = tuple(stage.spelling() for stage in passes(module, arguments.pipeline).stages)
    shapes = tuple(parse_shapes(arguments.shapes).items())
    oracle = Oracle(arguments.test, tuple(arguments.load_pass), shapes, arguments.seed, arguments.timeout)
    text = valid(module.operation.get_asm())
    first = "" if text is None else oracle.failure(text, names)
    if text is None or not first:
        raise UserError(
            "the module does not fail: there is nothing to reduce",
            location=arguments.file,
            hint="see --test and --pipeline"
            if arguments.test in TESTS
            else f"this does not end with status 0: {filled(arguments.test, arguments.file, ','.join(names))}",
        )
    search = Search(text, names, lambda text, names: oracle.failure(text, names) == first)
    ended = _to_its_end(search)
    so_far = "" if ended else "interrupted, the smallest so far: "
    print(
        f"{so_far}{first}: {operations(text)} operations are {operations(search.text)}, {len(names)} passes are "
        f"{len(search.passes)}, by {search.tests} tests",
        file=sys.stderr,
    )
    status = 0 if ended else 128 + signal.SIGINT
    if ended and oracle.failure(search.text, search.passes) != first:
        print("what is left does not fail when it is tried again: the test is not the same each time", file=sys.stderr)
        status = 1
    return f"// RUN: {_shown(arguments, ','.join(search.passes))}\n{search.text}", status


def _to_its_end(search: Search) -> bool:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        search.reduce()
    except KeyboardInterrupt:
        return False
    finally:
        signal.signal(signal.SIGTERM, before)
    return True


def _shown(arguments: argparse.Namespace, pipeline: str) -> str:
    """The command that shows the failure of what is left."""
    if arguments.test not in TESTS:
        return filled(arguments.test, "%s", pipeline)
    flag = {"crash": "bascule-opt %s --pass-pipeline", "mismatch": "bascule-run %s --pipeline"}[arguments.test]
    loaded = "".join(f" --load-pass={spec}" for spec in arguments.load_pass)
    shapes = f" --shapes={arguments.shapes}" if arguments.shapes else ""
    seed = f" --seed={arguments.seed}" if arguments.seed else ""
    quoted = pipeline.replace("'", "'\"'\"'")
    unregistered = " --allow-unregistered-dialect" if arguments.allow_unregistered_dialect else ""
    return f"{flag}='{quoted}'{loaded}{shapes}{seed}{unregistered}"


@command("bascule-reduce")
def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for an error or a test that changes its mind, 2 for a bad command line, 130 for an interrupt."""
    arguments = _arguments(argv)
    try:
        if arguments.o != "-":
            writable(arguments.o, "-o")
        text, status = reduce(arguments)
        write(text, arguments.o)
    except Exception as error:  # a user's pass may raise whatever it raises
        pass_on(error)
        print(f"bascule-reduce: error: {told(error)}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
