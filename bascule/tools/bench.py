"""`bascule bench DIR`: times the kernels of a dump, and prints and writes what `kernel_bench` tells of them."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..dialect.tools.command_line import writable
from ..dialect.tools.output import write
from ..kernel_bench.bench import Asked, bench
from ..kernel_bench.table import mismatches, table_of
from .run import parse_shapes


def run(arguments: argparse.Namespace) -> int:
    """Returns the exit status: 1 where a kernel does not match. Raises `UserError` and `OSError`."""
    if arguments.json is not None:
        writable(arguments.json, "--json")
    asked = Asked(arguments.kernel, arguments.repeat, arguments.check, parse_shapes(arguments.shapes))
    with _threads(arguments.threads):
        told = bench(Path(arguments.folder), asked)
    if arguments.json is not None:
        write(f"{json.dumps(told, indent=1)}\n", arguments.json)
    write(f"{table_of(told)}\n")
    found = mismatches(told)
    if found:
        print(f"bascule: error: --check: {found} kernels differ from the interpreter", file=sys.stderr)
    return int(bool(found))


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
