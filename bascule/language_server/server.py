"""The server's features over pygls: diagnostics, hover, definitions, and remarks as inlay hints."""

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from threading import Lock
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from bascule.dialect.interrupts import pass_on

from .definitions import Index
from .hover import subject_of, told_by_text
from .positions import Places
from .worker_process import SECONDS, Worker, WorkerDied

SOURCE = "bascule"
PAUSE = 0.2  # seconds without an edit, after which a text is looked at
LONGEST = 80  # characters of a hint; all of a remark stands in its tooltip
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
}


@dataclass
class Document:
    """One version of a file, and what is known of it."""

    uri: str
    version: int | None
    places: Places
    errors: list[dict[str, Any]] | None = None  # of the parser, verifiers and the contract; None: not asked yet
    failures: list[dict[str, Any]] = field(default_factory=list)  # of passes
    remarks: list[dict[str, Any]] | None = None
    lock: Lock = field(default_factory=Lock)  # held while a worker is asked, so that it is asked once

    @cached_property
    def index(self) -> Index:
        return Index.of(self.places.text)

    @property
    def path(self) -> str:
        return uris.to_fs_path(self.uri) or "-"

    def range(self, start: int, end: int) -> types.Range:
        return types.Range(*(types.Position(*self.places.position(offset)) for offset in (start, end)))


class Server(LanguageServer):
    """`may_load`: whether RUN lines may have code of the user's loaded; `seconds`: how long passes may take.

    What needs MLIR waits in threads of its own, so that no pass is in the way of messages, or of errors: `checking` and `running`, each with a
    worker.
    """

    def __init__(self, *, may_load: bool = False, seconds: float = SECONDS):
        super().__init__("bascule-lsp", version("bascule"))
        self.may_load, self.is_shut_down = may_load, False
        self.checker, self.runner = Worker(seconds), Worker(seconds)
        self.checking, self.running = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._documents: dict[str, Document] = {}
        self._looking_up = Lock()

    def close(self) -> None:
        """Ends the workers, whatever they are at."""
        for pool in (self.checking, self.running):
            pool.shutdown(wait=False, cancel_futures=True)
        self.checker.close()
        self.runner.close()

    def document(self, uri: str) -> Document:
        """The file as it is now."""
        with self._looking_up:
            text, known = self.workspace.get_text_document(uri), self._documents.get(uri)
            if known is None or known.version != text.version:
                source, encoding = text.source, self.workspace.position_encoding or types.PositionEncodingKind.Utf16
                places = Places(source, getattr(encoding, "value", encoding))
                known = self._documents[uri] = Document(uri, text.version, places)
            return known

    def version_of(self, uri: str) -> int | None:
        """The version of an open file; None for another."""
        return self.workspace.get_text_document(uri).version

    def is_current(self, document: Document) -> bool:
        """Whether the file is open, and was not edited since."""
        return self._documents.get(document.uri) is document and document.version == self.version_of(document.uri)

    def check(self, uri: str, version: int) -> None:
        """Publishes the errors of a version of a file, unless it is edited meanwhile."""
        if self.version_of(uri) == version:
            time.sleep(PAUSE)
        if self.version_of(uri) == version:
            document = self.document(uri)
            self.errors_of(document)
            self.publish(document)

    def errors_of(self, document: Document) -> list[dict[str, Any]]:
        with document.lock:
            if document.errors is None:
                try:
                    document.errors = self.checker.ask("check", document.places.text, document.path)
                except (WorkerDied, RuntimeError) as error:
                    pass_on(error)
                    document.errors = [_at_the_top(f"the verifier {error}")]
            return document.errors

    def remarks_of(self, document: Document) -> list[dict[str, Any]]:
        """The remarks that passes leave on a file without errors that is not edited meanwhile. Failures of theirs become diagnostics."""
        if not self.is_current(document) or self.errors_of(document):
            return []
        with document.lock:
            if document.remarks is None:
                document.remarks = []
                try:
                    told = self.runner.ask("run-passes", document.places.text, document.path, self.may_load)
                    document.remarks, document.failures = told["remarks"], told["failures"]
                    if told["loaded"]:
                        self.runner.restart()  # the file that a pass was loaded from may be edited
                except (WorkerDied, RuntimeError) as error:
                    pass_on(error)
                    document.failures = [_at_the_top(f"a pass {error}")]
        self.publish(document)
        return document.remarks

    def publish(self, document: Document) -> None:
        if self.is_current(document):
            found = [_diagnostic(document, finding) for finding in [*(document.errors or ()), *document.failures]]
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(document.uri, found, document.version)
            )

    def forget(self, uri: str) -> None:
        self._documents.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


def _at_the_top(message: str) -> dict[str, Any]:
    return {"line": 1, "column": 1, "kind": "error", "message": message}


def _diagnostic(document: Document, finding: dict[str, Any]) -> types.Diagnostic:
    """Over the token at the place, or next to it in its line; else to the end of the line."""
    places = document.places
    start = places.offset_of_mlir(finding["line"], finding["column"])
    last = places.offset(finding["line"] - 1, 1 << 30)
    start += len(re.match(r"\s*(?=\S)|", places.text[start:last])[0])  # type: ignore[index]  # the second alternative fits all
    token = document.index.token_at(start)
    end = token.end if token is not None and start < token.end else last
    severity = _SEVERITIES.get(finding["kind"], types.DiagnosticSeverity.Information)
    return types.Diagnostic(document.range(start, max(start, end)), finding["message"], severity, source=SOURCE)


def server(*, may_load: bool = False, seconds: float = SECONDS) -> Server:
    """A server with all features."""
    made = Server(may_load=may_load, seconds=seconds)
    for feature, answer in _FEATURES.items():
        made.feature(feature)(answer)
    return made


def _checked(ls: Server, params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    asked = ls.checking.submit(ls.check, params.text_document.uri, params.text_document.version)
    asked.add_done_callback(_tell_of_fault)


def _tell_of_fault(done: Future) -> None:
    """A fault of ours in a thread that nobody waits for goes to the standard error, which editors keep."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        logging.getLogger(__name__).error("%s", "".join(traceback.format_exception(error)))


def _did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    ls.forget(params.text_document.uri)


def _shutdown(ls: Server, params: Any = None) -> None:
    ls.is_shut_down = True
    ls.close()


def _definition(ls: Server, params: types.DefinitionParams) -> types.Location | None:
    document = ls.document(params.text_document.uri)
    token = document.index.token_at(_offset(document, params.position))
    found = document.index.definition(token) if token is not None else None
    return types.Location(document.uri, document.range(found.start, found.end)) if found is not None else None


async def _hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    document = ls.document(params.text_document.uri)
    offset = _offset(document, params.position)
    told, subject = told_by_text(document.places, document.index, offset), subject_of(document.index, offset)
    if subject is None and told is None:
        return None
    if told is None and subject is not None:
        told = await asyncio.get_running_loop().run_in_executor(ls.checking, ls.checker.ask, "entry", subject.text)
    shown = types.MarkupContent(types.MarkupKind.Markdown, told) if told else None
    token = subject or document.index.token_at(offset)
    return types.Hover(shown, document.range(token.start, token.end)) if shown and token else None


async def _inlay_hints(ls: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    """Remarks behind the lines of their ops."""
    document = ls.document(params.text_document.uri)
    first, last = params.range.start.line, params.range.end.line
    hints = []
    for remark in await asyncio.get_running_loop().run_in_executor(ls.running, ls.remarks_of, document):
        line = remark["line"] - 1
        if first <= line <= last:
            end = document.places.offset(line, 1 << 30)
            label = remark["message"] if len(remark["message"]) <= LONGEST else f"{remark['message'][: LONGEST - 2]}.."
            position = types.Position(*document.places.position(end))
            hints.append(types.InlayHint(position, label, tooltip=remark["detail"], padding_left=True))
    return hints


def _offset(document: Document, position: types.Position) -> int:
    return document.places.offset(position.line, position.character)


_FEATURES: dict[str, Callable[..., Any]] = {
    types.TEXT_DOCUMENT_DID_OPEN: _checked,
    types.TEXT_DOCUMENT_DID_CHANGE: _checked,
    types.TEXT_DOCUMENT_DID_CLOSE: _did_close,
    types.TEXT_DOCUMENT_HOVER: _hover,
    types.TEXT_DOCUMENT_DEFINITION: _definition,
    types.TEXT_DOCUMENT_INLAY_HINT: _inlay_hints,
    types.SHUTDOWN: _shutdown,
}
