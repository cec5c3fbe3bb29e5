"""The command lines of the tools."""

import argparse
import sys
from typing import NoReturn


class CommandLine(argparse.ArgumentParser):
    """A parser that tells a bad command line as the tools tell other errors: a line, a hint, exit status 1."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}\n  hint: {self.prog} -h prints the options", file=sys.stderr)
        sys.exit(1)
