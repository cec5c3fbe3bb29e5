"""Python text being written: lines, the names in it, and which line stands for which of the user's lines."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from keyword import iskeyword


@dataclass
class Source:
    taken: set[str] = field(default_factory=set)  # names that nothing new may have
    lines: list[str] = field(default_factory=list)
    locations: dict[int, str] = field(default_factory=dict)  # line number, from 1 -> "model.py:12"

    def line(self, text: str = "", location: str | None = None) -> None:
        """Appends a line; a failure in it is one of the user's `location`."""
        self.lines.append(text)
        if location is not None:
            self.locations[len(self.lines)] = location

    def delete(self, names: Iterable[str]) -> None:
        """Appends a line, in a function, after which `names` hold nothing; none if there are none."""
        if listed := ", ".join(names):
            self.line(f"    del {listed}")

    def unique(self, wish: str) -> str:
        """A name like `wish` that nothing else has."""
        base = name = re.sub(r"\W", "_", wish)
        for number in count(1):
            if name not in self.taken and not iskeyword(name):
                break
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def insert(self, number: int, lines: list[str]) -> None:
        """Puts `lines` after the first `number` lines."""
        self.lines[number:number] = lines
        self.locations = {at + len(lines) * (at > number): location for at, location in self.locations.items()}

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
