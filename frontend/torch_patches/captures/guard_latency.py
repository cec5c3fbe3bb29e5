"""How long a capture's guards take, measured without clearing the processor's caches.

Dynamo checks the guards of each capture twice: to see that they hold, and to time them, for a metric and its traces. Before the second it
writes and reads 32 MiB of fresh memory, so that nothing is in a cache: 20 ms a capture, five of which a GPT-2 takes. Inside `guards_timed_warm`
the check is timed as it comes after the first, unless a log or a trace shows the number.

The function is private to PyTorch. Checked on torch 2.11 to 2.14; where it is not there, all is as ever.
"""

import logging
from time import perf_counter
from typing import Any

from bascule.compat.graphs.dynamo import guards
from bascule.compat.graphs.logs import trace_log

from ..patch import attribute

_NAME = "profile_guard_manager"
_theirs = vars(guards).get(_NAME)


def _warm(root: Any, f_locals: dict[str, Any], *how: Any) -> float:
    """Microseconds of a check."""
    if trace_log.handlers or guards.guards_log.isEnabledFor(logging.DEBUG):
        assert _theirs is not None
        return _theirs(root, f_locals, *how)  # type: ignore[no-any-return]
    start = perf_counter()
    root.check(f_locals)
    return (perf_counter() - start) * 1e6


guards_timed_warm = attribute(guards, _NAME, _theirs, _warm)
