"""The user's line in the stack trace of an FX node."""

import os
import re
from importlib.util import find_spec

from torch.fx import Node

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
# A user's Triton kernel with heuristics is launched in Triton. Neither package is imported for its path.
_NOT_THE_USERS = tuple(
    os.path.dirname(spec.origin) + os.sep
    for spec in map(find_spec, ("torch", "triton"))
    if spec is not None and spec.origin
)


def user_frame(stack_trace: str) -> tuple[str, int] | None:
    """File and line of the innermost frame of a node's `stack_trace` that is outside of torch and Triton; of the innermost one where
    all are inside."""
    frames = _FRAME.findall(stack_trace)
    if not frames:
        return None
    file, line = next((frame for frame in reversed(frames) if not frame[0].startswith(_NOT_THE_USERS)), frames[-1])
    return file, int(line)


def location_of(node: Node) -> str | None:
    """The user's line of a node, `model.py:12`."""
    return location(node.meta.get("stack_trace"))


def location(stack_trace: str | None) -> str | None:
    """The user's line in a stack trace, `model.py:12`."""
    frame = user_frame(stack_trace or "")
    return f"{frame[0]}:{frame[1]}" if frame else None
