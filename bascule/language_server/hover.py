"""The subject of a hover: a name that the reference has an entry of, or one that the text itself defines."""

import re

from .definitions import Index
from .positions import Places
from .tokens import Token

_FLAG = re.compile(r"--[a-z][\w-]*")


def subject_of(index: Index, offset: int) -> Token | None:
    """The name at `offset` that an entry may be there of: an operation, an attribute, or a pass in a RUN line."""
    token = index.token_at(offset)
    if token is None:
        return None
    if token.kind == "comment":
        flags = (match for match in _FLAG.finditer(token.text) if "RUN:" in token.text)
        found = next((m for m in flags if token.start + m.start() <= offset <= token.start + m.end()), None)
        return Token("flag", found[0], token.start + found.start(), False) if found else None
    if token.kind == "string" and re.fullmatch(r'"[\w$]+(\.[\w$]+)+"', token.text):
        return Token("word", token.text.strip('"'), token.start + 1, False)
    dotted = token.kind in ("word", "alias") and "." in token.text
    return token if dotted or (token.kind == "word" and token.text in _SHORT) else None


# Operations that MLIR prints without their dialect.
_SHORT = {"return", "call", "module"}


def told_by_text(places: Places, index: Index, offset: int) -> str | None:
    """The line that defines the value, block, function or alias at `offset`."""
    token = index.token_at(offset)
    found = index.definition(token) if token is not None else None
    if found is None:
        return None
    line = places.position(found.start)[0]
    return f"```mlir\n{places.line(line).strip()}\n```\nline {line + 1}"
