"""Tests of a module: what fails, and how. Each runs in a process of its own, which may die of it.

A test gives a text that names the failure, the same one for the same failure, or nothing. A process that dies gives its signal.
"""

import multiprocessing
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bascule.dialect.failures.culprits import failure_of
from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline, registry
from bascule.errors import UserError

from ..debugging.run_program import is_program
from ..tools.checking import Check, after

ENDS_WELL = "the command ends with status 0"


@dataclass(frozen=True)
class Oracle:
    """`test`: "crash", "mismatch" or a shell command, in which {} is the file and {pipeline} its passes, and whose status 0 says that it
    fails. `load_pass`: the passes to know. `shapes`, `seed`: of the inputs of a mismatch. A test that takes longer than `timeout` seconds
    is no failure."""

    test: str
    load_pass: tuple[str, ...] = ()
    shapes: tuple[tuple[str, int], ...] = ()
    seed: int = 0
    timeout: float = 60.0

    def failure(self, text: str, passes: Sequence[str]) -> str:
        """The failure of a module's text under passes; empty where there is none."""
        if self.test not in TESTS:
            return self._command(text, ",".join(passes))
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload([__name__])
        ours, theirs = processes.Pipe(duplex=False)
        child = processes.Process(target=_examine, args=(theirs, self, text, ",".join(passes)), daemon=True)
        child.start()
        theirs.close()
        try:
            if ours.poll(self.timeout):
                return ours.recv()
        except EOFError:  # it died before it could say anything
            child.join()
            status = child.exitcode or 0
            return f"dies of {signal.Signals(-status).name}" if status < 0 else ""
        finally:
            child.kill()
            child.join()
            ours.close()
        return ""

    def _command(self, text: str, pipeline: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "reduced.mlir"
            file.write_text(text)
            return ENDS_WELL if self.status(filled(self.test, str(file), pipeline)) == 0 else ""

    def status(self, command: str) -> int | None:
        """The exit status of a shell command; None where it takes longer than the seconds. All that it started ends with it."""
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, shell=True, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            return process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


_PLACES = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\{\}|\{pipeline\}""")


def filled(command: str, file: str, pipeline: str) -> str:
    """A shell command with a file for {} and passes for {pipeline}, which are one word where the command has no quotes around them."""

    def put(match: re.Match) -> str:
        given = match[0].replace("{}", file).replace("{pipeline}", pipeline)
        return given if match[0][0] in "'\"" else shlex.quote(given)

    return _PLACES.sub(put, command)


def _crash(module: ir.Module, pipeline: str, oracle: Oracle) -> str:
    """Names what a pass raises, unless it refuses its input, and the verification that what it leaves does not pass."""
    del oracle
    try:
        Pipeline.parse(pipeline).run(module, verify=True)
    except UserError:
        return ""
    except Exception as error:  # a pass's own, whatever it is
        pass_on(error)
        failure = failure_of(error)  # without what ran before it: that changes as passes are left out
        how = "" if failure is None else f", left by {failure.culprit}" if failure.left else f" in {failure.culprit}"
        return f"{type(error).__name__}{how}"
    return ""


def _mismatch(module: ir.Module, pipeline: str, oracle: Oracle) -> str:
    check = Check(module, seed=oracle.seed, shapes=dict(oracle.shapes))
    left = after(module, pipeline)
    if not check.interpreted(left)[0].match:
        return "mismatch (interpreted)"
    return "mismatch (compiled)" if is_program(left) and not check.compiled(left).match else ""


TESTS: dict[str, Callable[[ir.Module, str, Oracle], str]] = {"crash": _crash, "mismatch": _mismatch}


def _examine(connection: Connection, oracle: Oracle, text: str, pipeline: str) -> None:
    """In a process of its own: sends the failure. IR that cannot be run is none."""
    for spec in oracle.load_pass:
        registry.load(spec)
    failure = ""
    try:
        with context(unregistered=True):  # as the module that is reduced was read
            failure = TESTS[oracle.test](ir.Module.parse(text), pipeline, oracle)
    except Exception as error:  # a candidate may be anything that verifies
        pass_on(error)
    connection.send(failure)
