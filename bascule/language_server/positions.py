"""Places of a text: offsets in characters, lines and columns as MLIR counts them, and positions as an editor does."""

from bisect import bisect_right
from dataclasses import dataclass, field

_UNITS = {"utf-8": (1, "utf-8"), "utf-16": (2, "utf-16-le"), "utf-32": (4, "utf-32-le")}  # bytes of a unit


@dataclass
class Places:
    """`encoding`: whose units an editor counts in a line. Lines count from 0."""

    text: str
    encoding: str = "utf-16"
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = [0, *(n + 1 for n, char in enumerate(self.text) if char == "\n")]

    def line(self, number: int) -> str:
        """The text of a line, without its end; empty beyond the last one."""
        if not 0 <= number < len(self._starts):
            return ""
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[number] : end].rstrip("\r\n")

    def position(self, offset: int) -> tuple[int, int]:
        """The line and the units in it before `offset`."""
        line = bisect_right(self._starts, offset) - 1
        size, name = _UNITS[self.encoding]
        return line, len(self.text[self._starts[line] : offset].encode(name, "surrogatepass")) // size

    def offset(self, line: int, character: int) -> int:
        """The offset of a position; the end of the line, or of the text, for one that is beyond."""
        if line >= len(self._starts):
            return len(self.text)
        size, name = _UNITS[self.encoding]
        head = self.line(line).encode(name, "surrogatepass")[: character * size].decode(name, "ignore")
        return self._starts[line] + len(head)

    def offset_of_mlir(self, line: int, column: int) -> int:
        """The offset of a place as MLIR tells it: both count from 1, the column in bytes of UTF-8."""
        number = min(max(line - 1, 0), len(self._starts) - 1)
        head = self.line(number).encode("utf-8", "surrogatepass")[: max(column - 1, 0)].decode("utf-8", "ignore")
        return self._starts[number] + len(head)
