"""The server's features over pygls: diagnostics, hover, definitions, and remarks as inlay hints."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Lock
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from .definitions import Index
from .hover import subject_of, told_by_text
from .positions import Places
from .worker_process import Worker, WorkerDied

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
    """One version of a file: its text, and what is known of it."""

    uri: str
    version: int | None
    places: Places
    index: Index
    errors: list[dict[str, Any]] | None = None  # of the parser, verifiers and the contract; None: not asked yet
    failures: list[dict[str, Any]] = field(default_factory=list)  # of passes
    remarks: list[dict[str, Any]] | None = None
    lock: Lock = field(default_factory=Lock)  # held while the worker is asked, so that it is asked once

    @property
    def path(self) -> str:
        return uris.to_fs_path(self.uri) or "-"

    def range(self, start: int, end: int) -> types.Range:
        return types.Range(*(types.Position(*self.places.position(offset)) for offset in (start, end)))


class Server(LanguageServer):
    """`may_load`: whether RUN lines may have code of the user's loaded."""

    def __init__(self, *, may_load: bool = False, worker: Worker | None = None):
        super().__init__("bascule-lsp", version("bascule"))
        self.may_load, self.worker, self.is_shut_down = may_load, worker or Worker(), False
        self._documents: dict[str, Document] = {}
        self._looking_up = Lock()

    def document(self, uri: str) -> Document:
        """The file as it is now."""
        with self._looking_up:
            text, known = self.workspace.get_text_document(uri), self._documents.get(uri)
            if known is None or known.version != text.version:
                source, encoding = text.source, self.workspace.position_encoding or types.PositionEncodingKind.Utf16
                places = Places(source, getattr(encoding, "value", encoding))
                known = self._documents[uri] = Document(uri, text.version, places, Index.of(source))
            return known

    def is_current(self, document: Document) -> bool:
        """Whether the file is open, and was not edited since."""
        version = self.workspace.get_text_document(document.uri).version
        return self._documents.get(document.uri) is document and document.version == version

    def check(self, uri: str) -> None:
        """Publishes the errors of a file that was opened or edited, unless it is edited meanwhile."""
        document = self.document(uri)
        time.sleep(PAUSE)
        if self.is_current(document):
            self.errors_of(document)
            self.publish(document)

    def errors_of(self, document: Document) -> list[dict[str, Any]]:
        with document.lock:
            if document.errors is None:
                try:
                    document.errors = self.worker.ask("check", document.places.text, document.path)
                except (WorkerDied, RuntimeError) as error:
                    document.errors = [_at_the_top(f"the verifier {error}")]
            return document.errors

    def remarks_of(self, document: Document) -> list[dict[str, Any]]:
        """The remarks that passes leave on a file without errors. Failures of theirs become diagnostics."""
        if self.errors_of(document):
            return []
        with document.lock:
            if document.remarks is None:
                document.remarks = []
                try:
                    told = self.worker.ask("run-passes", document.places.text, document.path, self.may_load)
                    document.remarks, document.failures = told["remarks"], told["failures"]
                    if told["loaded"]:
                        self.worker.end()  # the file that a pass was loaded from may be edited
                except (WorkerDied, RuntimeError) as error:
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


def server(*, may_load: bool = False, worker: Worker | None = None) -> Server:
    """A server with all features. Those that ask the worker run in threads, and text is looked at where it is read."""
    made = Server(may_load=may_load, worker=worker)
    for feature, answer in _NOTES.items():
        made.feature(feature)(made.thread()(answer))
    for feature, answer in _REQUESTS.items():
        made.feature(feature)(made.thread()(answer))
    made.feature(types.TEXT_DOCUMENT_DEFINITION)(_definition)
    made.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_did_close)
    made.feature(types.SHUTDOWN)(_shutdown)
    return made


def _checked(ls: Server, params: Any) -> None:
    ls.check(params.text_document.uri)


def _did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    ls.forget(params.text_document.uri)


def _shutdown(ls: Server, params: Any = None) -> None:
    ls.is_shut_down = True
    ls.worker.end()


def _definition(ls: Server, params: types.DefinitionParams) -> types.Location | None:
    document = ls.document(params.text_document.uri)
    token = document.index.token_at(_offset(document, params.position))
    found = document.index.definition(token) if token is not None else None
    return types.Location(document.uri, document.range(found.start, found.end)) if found is not None else None


def _hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    document = ls.document(params.text_document.uri)
    offset = _offset(document, params.position)
    told, subject = told_by_text(document.places, document.index, offset), subject_of(document.index, offset)
    if subject is None and told is None:
        return None
    if told is None and subject is not None:
        told = ls.worker.ask("entry", subject.text)
    shown = types.MarkupContent(types.MarkupKind.Markdown, told) if told else None
    token = subject or document.index.token_at(offset)
    return types.Hover(shown, document.range(token.start, token.end)) if shown and token else None


def _inlay_hints(ls: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    """Remarks behind the lines of their ops."""
    document = ls.document(params.text_document.uri)
    first, last = params.range.start.line, params.range.end.line
    hints = []
    for remark in ls.remarks_of(document):
        line = remark["line"] - 1
        if first <= line <= last:
            end = document.places.offset(line, 1 << 30)
            label = remark["message"] if len(remark["message"]) <= LONGEST else f"{remark['message'][: LONGEST - 2]}.."
            position = types.Position(*document.places.position(end))
            hints.append(types.InlayHint(position, label, tooltip=remark["detail"], padding_left=True))
    return hints


def _offset(document: Document, position: types.Position) -> int:
    return document.places.offset(position.line, position.character)


_NOTES: dict[str, Callable[[Server, Any], Any]] = {
    types.TEXT_DOCUMENT_DID_OPEN: _checked,
    types.TEXT_DOCUMENT_DID_CHANGE: _checked,
}
_REQUESTS: dict[str, Callable[[Server, Any], Any]] = {
    types.TEXT_DOCUMENT_HOVER: _hover,
    types.TEXT_DOCUMENT_INLAY_HINT: _inlay_hints,
}
