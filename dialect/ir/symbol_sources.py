"""Where the value of a symbol is found among a graph's inputs: an entry of `bascule.symbol_sources` that is not computed from others."""

from dataclasses import dataclass
from typing import Any

from ..mlir import ir
from .attributes import i64

KINDS = ("value", "size", "stride")


@dataclass(frozen=True)
class Source:
    """The integer placeholder `input`, or a size or stride of the tensor placeholder `input`: there stands `scale` * symbol + `offset`."""

    input: int
    kind: str  # one of KINDS
    dim: int = 0
    scale: int = 1
    offset: int = 0

    @classmethod
    def of(cls, entry: ir.DictAttr) -> "Source":
        """Reads what `attribute` wrote."""
        numbers = {name: entry[name].value for name in ("input", "dim", "scale", "offset")}
        return cls(kind=entry["kind"].value, **numbers)

    def attribute(self) -> ir.DictAttr:
        numbers = {"input": self.input, "dim": self.dim, "scale": self.scale, "offset": self.offset}
        parts = {name: i64(number) for name, number in numbers.items()}
        return ir.DictAttr.get({"kind": ir.StringAttr.get(self.kind), **parts})

    @property
    def is_exact(self) -> bool:
        """Whether what is found is the symbol's value."""
        return (self.kind, self.scale, self.offset) == ("value", 1, 0)

    def found(self, symbol: int) -> int:
        """The integer that stands there for a value of the symbol."""
        return self.scale * symbol + self.offset

    def symbol(self, given: Any) -> int:
        """The symbol's value where the placeholder is `given`."""
        found = (
            given if self.kind == "value" else given.shape[self.dim] if self.kind == "size" else given.stride(self.dim)
        )
        return (found - self.offset) // self.scale

    def text(self, name: str) -> str:
        """The Python text of `symbol`, where the placeholder is called `name`."""
        text = name if self.kind == "value" else f"{name}.{self.kind}({self.dim})"
        text = f"({text} - {self.offset})" if self.offset else text
        return text if self.scale == 1 else f"{text} // {self.scale}"
