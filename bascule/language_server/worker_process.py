"""A worker as the server sees it: started when it is first asked, and again after it died."""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, Any

SECONDS = 120  # that an answer may take


class WorkerDied(Exception):
    """The process ended while it was at a request. The message says how, with the pass that its last words name."""


@dataclass
class Worker:
    """One process, asked by one thread at a time. `seconds`: how long it may take for an answer, after which it ends itself."""

    seconds: float = SECONDS
    _process: subprocess.Popen | None = None
    _said: IO[bytes] | None = None  # the standard error of the process
    _closed: bool = False
    _lock: Lock = field(default_factory=Lock)

    def ask(self, kind: str, *arguments: Any) -> Any:
        """The answer to a request of `worker.REQUESTS`. Raises `WorkerDied`, and RuntimeError with the text of what it raised."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None, "they are pipes"
            try:
                process.stdin.write(json.dumps({"kind": kind, "arguments": arguments}) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            if not line:
                raise WorkerDied(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def restart(self) -> None:
        """Ends the process; the next request starts another."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Ends the process, at whatever request it is, and starts no other."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        self.restart()

    def _started(self) -> subprocess.Popen:
        if self._closed:
            raise WorkerDied("runs no more: the server ends")
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", str(self.seconds)],
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

    def _last_words(self) -> str:
        """Tells how the process ended, and the innermost frame of a pass."""
        assert self._process is not None and self._said is not None, "it was started"
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        self._end()
        frames = re.findall(r"^ *File .*, line \d+ in (.*\bpass '.*)$", said, re.MULTILINE)
        late = re.search(r"^Timeout \(", said, re.MULTILINE)
        how = f"takes more than {self.seconds:g} s" if late else f"ended the process (status {status})"
        return f"{how}: {frames[0]}" if frames else how
