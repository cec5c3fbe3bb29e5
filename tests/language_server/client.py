"""A client of `bascule-lsp` over its standard input and output: JSON-RPC by hand, so that nothing of the server's stands on both sides."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 120  # a message may take that long: the worker starts, imports PyTorch, and shares two cores with other tests


class Client:
    """Speaks to one server. Answers and notifications are read in a thread of their own."""

    def __init__(self, *flags: str, folder: Path | None = None, command: list[str] | None = None):
        self.process = subprocess.Popen(
            [*(command or [sys.executable, "-m", "bascule.language_server.command"]), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
        )
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.notes: list[dict[str, Any]] = []
        self.errors: list[bytes] = []
        self.number = 0
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def _read(self) -> None:
        stream = self.process.stdout
        while True:
            length = None
            while line := stream.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if length is None:
                self.messages.put(None)
                return
            self.messages.put(json.loads(stream.read(length)))

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self.process.stdin.flush()

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def send(self, method: str, params: Any = None) -> int:
        """Sends a request; returns its number."""
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        return self.number

    def ask(self, method: str, params: Any = None) -> Any:
        """The result of a request; raises AssertionError for an error."""
        number = self.send(method, params)
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self.notes.append(message)

    def diagnostics(self, uri: str, version: int | None = None) -> list[dict[str, Any]]:
        """The diagnostics that are published next for the file, of that version if one is given."""
        while True:
            for note in self.notes:
                params = note.get("params")
                if note.get("method") != "textDocument/publishDiagnostics" or params["uri"] != uri:
                    continue
                if version is None or params.get("version") == version:
                    self.notes.remove(note)
                    return params["diagnostics"]
            self.notes.append(self._next())

    def _next(self) -> dict[str, Any]:
        message = self.messages.get(timeout=SECONDS)
        assert message is not None, b"".join(self.errors).decode()
        return message

    def open(self, path: Path, text: str | None = None) -> str:
        """Opens a file; returns its URI."""
        if text is not None:
            path.write_text(text)
        uri = path.as_uri()
        item = {"uri": uri, "languageId": "mlir", "version": 1, "text": path.read_text()}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: int, *changes: dict[str, Any]) -> None:
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    def at(self, method: str, uri: str, line: int, character: int) -> Any:
        """The answer to a request about a place."""
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": place})

    def hints(self, uri: str, last: int = 10_000) -> list[dict[str, Any]]:
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": last, "character": 0}}
        return self.ask("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})

    def leave(self) -> int:
        """Shuts the server down; returns its exit status."""
        self.ask("shutdown")
        self.notify("exit", None)
        return self.process.wait(timeout=SECONDS)


@contextmanager
def talking(
    *flags: str, folder: Path | None = None, command: list[str] | None = None, encodings: list[str] | None = None
) -> Iterator[Client]:
    """A client of a server that is initialized; ends the server in any case. `command` starts one, in `folder`; else this Python does."""
    client = Client(*flags, folder=folder, command=command)
    general = {"general": {"positionEncodings": encodings}} if encodings else {}
    try:
        client.capabilities = client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": general})
        client.notify("initialized", {})
        yield client
    finally:
        client.process.kill()
        client.process.wait()
