"""Tokens of MLIR's text, with their offsets: no parser, so that a file may be broken."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"?)
    |(?P<value>%(?:\d+|[A-Za-z_$.-][\w$.-]*)(?:\#\d+)?)
    |(?P<symbol>@(?:[A-Za-z_][\w$.]*|"(?:[^"\\\n]|\\.)*"))
    |(?P<block>\^(?:\d+|[A-Za-z_$.-][\w$.-]*))
    |(?P<alias>[\#!][A-Za-z_][\w$.]*)
    |(?P<word>[A-Za-z_][\w$.]*)
    |(?P<number>\d[\w.]*)
    |(?P<mark>->|[{}()\[\]<>=:,])""",
    re.VERBOSE | re.ASCII,
)
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Token(NamedTuple):
    """`text` at the offset `start`, in characters; `first`: nothing but spaces is before it on its line."""

    kind: str
    text: str
    start: int
    first: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens(text: str) -> Iterator[Token]:
    """The tokens in order, comments too."""
    end = 0
    for match in _TOKEN.finditer(text):
        first = end == 0 or "\n" in text[end : match.start()]
        yield Token(match.lastgroup or "", match[0], match.start(), first)
        end = match.end()


def without_locations(text: str) -> str:
    """`text` with spaces for the locations that it gives: what is parsed of it is at its places here, line and column."""
    if "loc(" not in text:
        return text
    found = [token for token in tokens(text) if token.kind != "comment"]
    parts, done, number = [], 0, 0
    while number < len(found):
        token = found[number]
        following = found[number + 1].text if number + 1 < len(found) else ""
        if token.kind != "word" or token.text != "loc" or following != "(":
            number += 1
            continue
        named = number > 1 and found[number - 1].text == "=" and found[number - 2].kind == "alias"
        start = found[number - 2].start if named else token.start
        number = _after_brackets(found, number + 1)
        end = found[number - 1].end
        parts += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


def _after_brackets(found: list[Token], opening: int) -> int:
    """The number of the token behind the bracket that closes the one at `opening`; how many there are, where none does."""
    depth = 0
    for number in range(opening, len(found)):
        depth += (found[number].text in _CLOSING) - (found[number].text in _CLOSING.values())
        if depth == 0:
            return number + 1
    return len(found)
