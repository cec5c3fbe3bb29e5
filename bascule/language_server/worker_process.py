"""The worker as the server sees it: started when it is first asked, again after it died, ended where it takes too long."""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import IO, Any

SECONDS = 120  # that an answer may take


class WorkerDied(Exception):
    """The process ended, or was ended, while it was at a request. The message says how, with its last words."""


@dataclass
class Worker:
    """One process, asked by one thread at a time. `seconds`: how long it may take for an answer."""

    seconds: float = SECONDS
    _process: subprocess.Popen | None = None
    _said: IO[bytes] | None = None  # the standard error of the process
    _lock: Lock = field(default_factory=Lock)

    def ask(self, kind: str, *arguments: Any) -> Any:
        """The answer to a request of `worker.REQUESTS`. Raises `WorkerDied`, and RuntimeError with the text of what it raised."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None, "they are pipes"
            late = Timer(self.seconds, process.kill)
            late.start()
            try:
                process.stdin.write(json.dumps({"kind": kind, "arguments": arguments}) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            finally:
                timed_out = not late.is_alive()
                late.cancel()
            if not line:
                raise WorkerDied(self._last_words(timed_out))
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def end(self) -> None:
        """Ends the process; the next request starts another."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._said is not None:
            self._said.close()
            self._said = None

    def _last_words(self, timed_out: bool) -> str:
        """Tells how the process ended, and the frame that says where: the pass at work."""
        assert self._process is not None and self._said is not None, "it was started"
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        frames = re.findall(r"^ *File .*, line \d+ in (.*\bpass '.*)$", said, re.MULTILINE)
        self._end()
        how = f"took more than {self.seconds:g} s" if timed_out else f"ended the process (status {status})"
        return f"{how}: {frames[0]}" if frames else how
