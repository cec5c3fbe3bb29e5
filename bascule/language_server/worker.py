"""The process in which MLIR and passes run for the server: a line of JSON a request, and one for its answer. A pass that ends its process
ends this one alone; so does one that takes longer than the seconds that are the process's argument, with a traceback of where it was."""

import faulthandler
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from bascule.dialect.interrupts import pass_on
from bascule.dialect.last_words import speak

from . import checks, entries


def _run_passes(text: str, path: str, may_load: bool) -> dict[str, Any]:
    return asdict(checks.run_passes(text, path, may_load=may_load))


def _check(text: str, path: str) -> list[dict[str, Any]]:
    return [asdict(finding) for finding in checks.check(text, path)]


REQUESTS: dict[str, Callable[..., Any]] = {"check": _check, "run-passes": _run_passes, "entry": entries.entry_of}


def answers() -> TextIO:
    """The stream that answers go to: the standard output, which what runs here prints to, goes to the standard error from now on."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stream


def main() -> None:
    """Answers until the standard input ends."""
    speak()
    seconds, out = float(sys.argv[1]), answers()
    for line in sys.stdin:
        request = json.loads(line)
        faulthandler.dump_traceback_later(seconds, exit=True)  # in native code too, and if the server is gone
        try:
            answer = {"result": REQUESTS[request["kind"]](*request["arguments"])}
        except Exception as error:  # a fault of ours: the next request may go well
            pass_on(error)
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            faulthandler.cancel_dump_traceback_later()
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
