"""The state that all writers of one graph's module share: its text, and the names in it."""

from bascule.dialect.analysis.memory.buffers import Sizes
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.mlir import ir

from .buffer_places import Places
from .signature import Signature
from .source import Source

# Names that a generated module uses itself.
RESERVED = (
    *("args", "call", "check_finite", "check_index", "check_layout", "constants", "current_stream", "empty"),
    *("empty_kept", "flat", "free", "functional", "give_arena", "i32", "i64", "kept", "kept_layouts", "kernel"),
    *("laid_out", "lay_out", "layout"),
    *("over", "plan", "ptr", "realigned", "saved_view", "size", "slot", "stream", "take_arena", "thread_count"),
    *("threads", "torch", "view", "view_of", "wait_copied"),
)


class ModuleWriter:
    """The module of the function `graph`, being written."""

    def __init__(self, graph: ir.Operation, table: ir.SymbolTable):
        self.signature = Signature(graph)
        self.symbols = self.signature.symbols
        self.source = Source(set(RESERVED))
        self.places = Places(self.source, Sizes(graph, table), self.symbols)
        self.names: dict[str, str] = {}  # function -> what it is bound to
        self.written: set[str] = set()  # inputs that the program writes
        self.commented: str | None = None  # the last comment, while what follows stands under it
        self._comments: dict[ir.Attribute, str | None] = {}  # by location: layers have the same

    def comment(self, op: ir.Operation) -> None:
        """Says which operators what follows stands for, and where the user called them."""
        key = op.location.attr
        if key not in self._comments:
            self._comments[key] = _comment(op.location)
        text = self._comments[key]
        if text and text != self.commented:
            self.source.line(f"    # {text}")
        self.commented = text


def _comment(location: ir.Location) -> str | None:
    operators, where = ", ".join(dict.fromkeys(operators_of(location))), source_of(location)
    return f"{operators}  {where}" if operators and where else operators or where
