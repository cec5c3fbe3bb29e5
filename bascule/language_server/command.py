"""`bascule-lsp`: the language server, on the standard input and output."""

import argparse
import os
import sys
from collections.abc import Sequence

from bascule.dialect.tools.command import command

from ..tools.command_line import CommandLine, seconds
from .worker_process import SECONDS


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandLine(
        prog="bascule-lsp",
        description="A language server for .mlir files with Bascule's dialect, over the standard input and output: diagnostics of the parser, "
        "the verifiers and the dialect's contract; the reference at operations, attributes and passes; definitions; remarks of passes as inlay "
        "hints. The passes are those of the file's first RUN line that names any, else what torch.compile runs on what is there.",
    )
    parser.add_argument("--stdio", action="store_true", help="the only way to talk to it, and the default")
    parser.add_argument(
        "--load", action="store_true", help="load the passes of --load-pass in RUN lines: runs code that a file names"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=SECONDS,
        metavar="SECONDS",
        help=f"how long passes may take (default: {SECONDS})",
    )
    return parser.parse_args(argv)


@command("bascule-lsp")
def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status: 0 after `shutdown`, else 1."""
    args = _arguments(argv)
    try:
        from .server import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        print("bascule-lsp: error: it needs pygls\n  hint: pip install 'bascule[lsp]'", file=sys.stderr)
        return 1
    made = server(may_load=args.load, seconds=args.timeout)
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what is printed here is no message
    try:
        made.start_io(sys.stdin.buffer, out)
    finally:
        made.close()
    return 0 if made.is_shut_down else 1


if __name__ == "__main__":
    sys.exit(main())
