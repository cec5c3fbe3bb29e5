"""`bascule`: commands about Bascule itself. `bascule cache stat` shows what the disk cache holds, `bascule cache clear` empties it;
`bascule report DIR` makes a page of a dump, `bascule bench DIR` times its kernels."""

import argparse
import sys
from collections.abc import Callable, Sequence

from ..cache.disk.directory import clear, statistics
from ..cache.remote.settings import settings
from ..dialect.interrupts import pass_on
from ..dialect.tools.command import command
from ..dialect.tools.command_line import writable
from ..errors import UserError
from .command_line import CommandLine


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandLine(prog="bascule", description="Commands about Bascule itself.")
    commands = parser.add_subparsers(dest="command", required=True)
    cache = commands.add_parser(
        "cache",
        help="compiled graphs on disk",
        description="Traces, compiled graphs and kernels on disk, in $BASCULE_CACHE_DIR or ~/.cache/bascule. BASCULE_CACHE_LIMIT bounds the "
        "bytes of all of it (default: 2 GiB); what was used longest ago goes first.",
    )
    cache.add_argument("what", choices=("stat", "clear"), help="show how much there is, or delete it")
    report = commands.add_parser(
        "report",
        help="one page of HTML of a dump",
        description="Of what a compile with options={'dump': 'folder'} left there: code at each stage, kernels, memory, times.",
    )
    report.add_argument("folder", help="the folder that was dumped into")
    report.add_argument(
        "-o", default="bascule-report.html", metavar="FILE", help="where the page goes (default: %(default)s)"
    )
    bench = commands.add_parser(
        "bench",
        help="times of the kernels of a dump",
        description="Times each kernel of a dump by itself, on the shapes and the values that its program gives it, beside the limit that the "
        "machine's memory and units set, and what was predicted.",
    )
    bench.add_argument("folder", metavar="DIR", help="the folder that was dumped into, or that of one graph in it")
    bench.add_argument("--kernel", action="append", default=[], metavar="NAME", help="this kernel; may be given again")
    bench.add_argument("--repeat", type=positive, metavar="N", help="launches to measure (default: 0.2 s, 7 to 1000)")
    bench.add_argument("--threads", type=positive, metavar="N", help="of a CPU (default: those of PyTorch)")
    bench.add_argument("--shapes", default="", metavar="s0=4,s1=7", help="sizes of symbols, for a dump without inputs")
    bench.add_argument("--check", action="store_true", help="compare with the interpreter first, as bascule-run does")
    bench.add_argument("--json", metavar="FILE", help="write the records there: the manifest's, with measured times")
    return parser.parse_args(argv)


def positive(text: str) -> int:
    """A number of things. Raises ValueError for another, as argparse wants it."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


@command("bascule")
def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 1 for an error that was printed."""
    arguments = _arguments(argv)
    if arguments.command != "cache":
        return _told(_report if arguments.command == "report" else _bench, arguments)
    if arguments.what == "clear":
        print(f"{clear()} entries deleted")
        return 0
    told = statistics()
    print(f"directory: {told.pop('directory') or 'none, the cache is off'}")
    for name, found in told.items():
        print(f"{name}: {found['entries']} entries, {found['bytes']:,} bytes")
    remote = settings()
    if remote is not None:
        print(f"behind it: {remote.shown}")
    return 0


def _told(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """The exit status of a command, whose errors are printed."""
    try:
        return command(arguments)
    except BrokenPipeError:  # of the standard output
        raise
    except (UserError, OSError) as error:
        pass_on(error)
        print(f"bascule: error: {error}", file=sys.stderr)
        return 1


def _report(arguments: argparse.Namespace) -> int:
    from ..report_page.collect import report_of_dump

    writable(arguments.o, "-o")
    print(report_of_dump(arguments.folder, arguments.o))
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from .bench import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
