"""Python text being written: lines, and which line stands for which of the user's lines."""

from dataclasses import dataclass, field


@dataclass
class Source:
    lines: list[str] = field(default_factory=list)
    locations: dict[int, str] = field(default_factory=dict)  # line number, from 1 -> "model.py:12"

    def line(self, text: str = "", location: str | None = None) -> None:
        """Appends a line; a failure in it is one of the user's `location`."""
        self.lines.append(text)
        if location is not None:
            self.locations[len(self.lines)] = location

    def insert(self, number: int, lines: list[str]) -> None:
        """Puts `lines` after the first `number` lines."""
        self.lines[number:number] = lines
        self.locations = {at + len(lines) * (at > number): location for at, location in self.locations.items()}

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
