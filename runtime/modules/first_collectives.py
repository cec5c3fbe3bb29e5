"""The first call of a module with collectives on a GPU.

NCCL connects the ranks of a group in its first collective, and waits for them on the host. No time-out of PyTorch ends that wait, for what it
watches is not yet on the stream. So a thread does: a call that stands in the start of one collective for longer than the time-out of its group
has the group aborted, and raises what NCCL tells then.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from .collective_errors import started_in

LOOKS = 20  # within a time-out
GRACE = 10.0  # seconds for an abort to end the call


@contextmanager
def watched(code: CodeType, lines: Sequence[str], namespace: Mapping[str, Any]) -> Iterator[None]:
    """Watches this thread's call of a module, whose function has `code`, `lines` of the module and its `namespace`."""
    done = threading.Event()
    arguments = (threading.get_ident(), code, lines, namespace, done)
    threading.Thread(target=_watch, args=arguments, name="bascule-first-collectives", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(
    thread: int, code: CodeType, lines: Sequence[str], namespace: Mapping[str, Any], done: threading.Event
) -> None:
    from bascule.compat.tensors.process_groups import timeout_of

    limits = {name: timeout_of(name) for name in _groups(lines, namespace)}
    known = [limit for limit in limits.values() if limit is not None]
    line, since = None, time.monotonic()
    while known and not done.wait(min(known) / LOOKS):
        now = _line(thread, code)
        if now != line:
            line, since = now, time.monotonic()
            continue
        group = None if line is None else started_in(lines[line - 1], namespace)
        limit = None if group is None else limits.get(group)
        if group is not None and limit is not None and time.monotonic() - since > limit:
            return _end(group, limit, done)


def _groups(lines: Sequence[str], namespace: Mapping[str, Any]) -> set[str]:
    return {group for line in lines if (group := started_in(line, namespace)) is not None}


def _line(thread: int, code: CodeType) -> int | None:
    """Where in the module the thread is."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else frame.f_lineno


def _end(group: str, limit: float, done: threading.Event) -> None:
    """Ends the wait of the other thread, else the process: as PyTorch does with collectives that it watches."""
    from bascule.compat.tensors.process_groups import group_named

    from .collective_errors import ranks_of_group

    threading.Thread(target=group_named(group).abort, daemon=True).start()
    if not done.wait(GRACE):
        told = f"the first collective of the process group '{group}' has not begun within {limit:.0f} s{ranks_of_group(group)}"
        print(f"bascule: {told}\nbascule: it cannot be aborted; the process ends", file=sys.stderr, flush=True)
        os.abort()
