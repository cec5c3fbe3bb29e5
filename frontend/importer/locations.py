"""Where a graph's node comes from: the user's line, under the operator's name."""

import torch
from bascule.dialect.mlir import ir

from ..fx.stack_traces import user_frame


class Locations:
    """`loc("aten.add.Tensor"("model.py":12:0))` for nodes; one text of a stack is read once."""

    def __init__(self, context: ir.Context):
        self.unknown = ir.Location.unknown(context)
        self.context = context
        self.files: dict[str | None, ir.Location] = {None: self.unknown}
        self.named: dict[tuple[str, str | None], ir.Location] = {}

    def source(self, node: torch.fx.Node) -> ir.Location:
        """The user's line of `node`."""
        trace = node.meta.get("stack_trace")
        if trace not in self.files:
            frame = user_frame(trace)
            self.files[trace] = self._file(*frame) if frame else self.unknown
        return self.files[trace]

    def _file(self, name: str, line: int) -> ir.Location:
        told = name.encode(errors="backslashreplace").decode()  # the bindings take no half of a character
        return ir.Location.file(told, line, 0, context=self.context)

    def of(self, node: torch.fx.Node, operator: str) -> ir.Location:
        """The user's line of `node`, under the name of its operator."""
        key = (operator, node.meta.get("stack_trace"))
        if key not in self.named:
            self.named[key] = ir.Location.name(operator, self.source(node), context=self.context)
        return self.named[key]
