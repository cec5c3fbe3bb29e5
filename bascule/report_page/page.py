"""The page: data, packed, in a frame of HTML, CSS and JavaScript that need no network."""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .documents import Document, of_sources

FOLDER = Path(__file__).parent


def page_of(title: str, graphs: Sequence[dict[str, Any]], told: dict[str, Any]) -> str:
    """The text of the page. `told`: what is known beside the dump, as `collect.py` has it."""
    documents = [document for graph in graphs for document in graph["documents"]]
    sources = of_sources(documents)
    blobs: list[str] = []

    def stored(document: Document) -> dict[str, Any]:
        blobs.append(_packed(document.text))
        return {"title": document.title, "blob": len(blobs) - 1, "lines": _numbered(document.lines)}

    places: dict[str, int] = {}

    def _numbered(lines: dict[int, list[str]]) -> dict[int, list[int]]:
        return {line: [places.setdefault(place, len(places)) for place in found] for line, found in lines.items()}

    used = {place for document in documents for found in document.lines.values() for place in found}
    sources = [
        Document(s.title, s.text, {n: found for n, found in s.lines.items() if used & set(found)}) for s in sources
    ]
    data = {
        "title": title,
        "told": told,
        "sources": [stored(source) for source in sources],
        "graphs": [graph | {"documents": [stored(d) for d in graph["documents"]]} for graph in graphs],
    }
    data["places"] = list(places)
    frame = (FOLDER / "page.html").read_text()
    script = "\n".join((FOLDER / name).read_text() for name in ("data.js", "code.js", "views.js", "page.js"))
    parts = {
        "TITLE": title.replace("&", "&amp;").replace("<", "&lt;"),
        "STYLE": (FOLDER / "page.css").read_text(),
        "SCRIPT": script,
        "DATA": f"const DATA = {json.dumps(_packed(json.dumps(data)))};\nconst BLOBS = {json.dumps(blobs)};",
    }
    return re.sub(f"@({'|'.join(parts)})@", lambda match: parts[match[1]], frame)


def _packed(text: str) -> str:
    """Gzip, then base64: a browser has a decoder of both."""
    return b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
