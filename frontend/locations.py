"""Where a graph's node comes from: the user's line, under the operator's name."""

import os
import re

import torch
from bascule.dialect.mlir import ir

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(torch.__file__) + os.sep


def user_frame(stack_trace: str) -> tuple[str, int] | None:
    """File and line of the innermost frame of a node's `stack_trace` that is outside of torch; of the innermost one where all are inside."""
    frames = _FRAME.findall(stack_trace)
    if not frames:
        return None
    file, line = next((frame for frame in reversed(frames) if not frame[0].startswith(_TORCH)), frames[-1])
    return file, int(line)


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
            self.files[trace] = ir.Location.file(*frame, 0, context=self.context) if frame else self.unknown
        return self.files[trace]

    def of(self, node: torch.fx.Node, operator: str) -> ir.Location:
        """The user's line of `node`, under the name of its operator."""
        key = (operator, node.meta.get("stack_trace"))
        if key not in self.named:
            self.named[key] = ir.Location.name(operator, self.source(node), context=self.context)
        return self.named[key]
