"""The command lines of the tools."""

import argparse
import sys
from importlib.metadata import version
from typing import Any, NoReturn


class CommandLine(argparse.ArgumentParser):
    """A parser that tells a bad command line as the tools tell other errors: a line, a hint, exit status 1. It has `--version`."""

    def __init__(self, **given: Any):
        super().__init__(**given)
        self.add_argument(
            "--version",
            action="version",
            version=f"{self.prog.split()[0]} {version('bascule')}",
            help="print the version and exit",
        )

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}\n  hint: {self.prog} -h prints the options", file=sys.stderr)
        sys.exit(1)


def unregistered(parser: argparse.ArgumentParser) -> None:
    """Adds the flag of `bascule-opt` that has operations of any dialect taken."""
    told = "accept operations of dialects that are not loaded"
    parser.add_argument("--allow-unregistered-dialect", action="store_true", help=told)


def seed(text: str) -> int:
    """A seed of PyTorch's generators. Raises ValueError for another number, as argparse wants it."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(text)
    return number


def seconds(text: str) -> float:
    """A time to wait at most, over 0 and at most a year: timers of the system take no infinity. Raises ValueError for another."""
    number = float(text)
    if not 0 < number <= 366 * 24 * 3600:
        raise ValueError(text)
    return number
