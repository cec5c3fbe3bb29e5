"""The user's line in the stack trace of an FX node."""

import os
import re

import torch

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(torch.__file__) + os.sep


def user_frame(stack_trace: str) -> tuple[str, int] | None:
    """File and line of the innermost frame of a node's `stack_trace` that is outside of torch; of the innermost one where all are inside."""
    frames = _FRAME.findall(stack_trace)
    if not frames:
        return None
    file, line = next((frame for frame in reversed(frames) if not frame[0].startswith(_TORCH)), frames[-1])
    return file, int(line)
