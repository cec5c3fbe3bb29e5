"""A Python process that runs one text after the other in one namespace, as a user at a prompt would."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Timer

SECONDS = 300  # for one text
DONE = "this text is done"
DRIVER = f"""
import json, sys
for line in sys.stdin:
    exec(compile(json.loads(line), "<block>", "exec"), globals())
    print("\\n{DONE}", flush=True)
"""


class PythonSession:
    """In `folder`. A context, at whose end the process has ended well."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str):
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  open as long as the process
        self.process = subprocess.Popen(
            [sys.executable, *options, "-c", DRIVER],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def run(self, text: str) -> None:
        """Raises `AssertionError` with the text and what the process said, where it ends."""
        timer = Timer(SECONDS, self.process.kill)
        timer.start()
        try:
            print(json.dumps(text), file=self.process.stdin, flush=True)
            while (line := self.process.stdout.readline()) != f"{DONE}\n":
                assert line, f"{text}\n{self._said()}"
        except BrokenPipeError:
            raise AssertionError(f"{text}\n{self._said()}") from None
        finally:
            timer.cancel()

    def _said(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        return self.errors.read()

    def __enter__(self) -> "PythonSession":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self.errors, self.process:
            if kind is not None:
                self.process.kill()
                return
            self.process.communicate(timeout=SECONDS)
            assert self.process.returncode == 0, self._said()
