"""`bascule`: commands about Bascule itself. `bascule cache stat` shows what the disk cache holds, `bascule cache clear` empties it."""

import argparse
import sys
from collections.abc import Sequence

from ..cache.disk.directory import clear, statistics


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
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 for a bad command line."""
    arguments = _arguments(argv)
    if arguments.what == "clear":
        print(f"{clear()} entries deleted")
        return 0
    told = statistics()
    print(f"directory: {told.pop('directory') or 'none, the cache is off'}")
    for name, found in told.items():
        print(f"{name}: {found['entries']} entries, {found['bytes']:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
