"""`bascule`: commands about Bascule itself. `bascule cache stat` shows what the disk cache holds, `bascule cache clear` empties it;
`bascule report DIR` makes a page of a dump."""

import argparse
import sys
from collections.abc import Sequence

from ..cache.disk.directory import clear, statistics
from ..dialect.interrupts import pass_on
from ..errors import UserError


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bascule", description="Commands about Bascule itself.")
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
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for an error that was printed, or 2 for a bad command line."""
    arguments = _arguments(argv)
    if arguments.command == "report":
        return _report(arguments.folder, arguments.o)
    if arguments.what == "clear":
        print(f"{clear()} entries deleted")
        return 0
    told = statistics()
    print(f"directory: {told.pop('directory') or 'none, the cache is off'}")
    for name, found in told.items():
        print(f"{name}: {found['entries']} entries, {found['bytes']:,} bytes")
    return 0


def _report(folder: str, file: str) -> int:
    from ..report_page.collect import report_of_dump

    try:
        print(report_of_dump(folder, file))
    except (UserError, OSError) as error:
        pass_on(error)
        print(f"bascule: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
