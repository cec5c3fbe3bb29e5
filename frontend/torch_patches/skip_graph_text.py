"""AOTAutograd's graphs not written as text where nobody reads that.

At each compile AOTAutograd writes the joint graph, the forward and the backward as text, for its logs and traces, whether or not one is on.
With symbolic sizes that can take longer than compiling the graphs. Inside `unread_graphs_unwritten` it does so where a log or a trace is on.

The functions that write are private to PyTorch. Checked on torch 2.11 to 2.14; where they are not there, it writes as ever.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from bascule.compat.graphs.aot_autograd import graph_compile
from bascule.compat.graphs.logs import getArtifactLogger, trace_log

from .patch import Patch

# What each returns where it writes nothing.
_WRITERS: dict[str, Any] = {"_log_joint_graph": None, "_log_fw_bw_graphs": (None, None), "_log_inference_graph": None}
_theirs = {name: getattr(graph_compile, name) for name in _WRITERS if hasattr(graph_compile, name)}
_logs = [getArtifactLogger(graph_compile.__name__, artifact) for artifact in ("aot_joint_graph", "aot_graphs")]


def _are_read() -> bool:
    return bool(trace_log.handlers) or any(log.isEnabledFor(logging.INFO) for log in _logs)


def _where_read(write: Callable[..., Any], nothing: Any) -> Callable[..., Any]:
    @wraps(write)
    def written(*args: Any, **kwargs: Any) -> Any:
        return write(*args, **kwargs) if _are_read() else nothing

    return written


def _make() -> None:
    for name, write in _theirs.items():
        setattr(graph_compile, name, _where_read(write, _WRITERS[name]))


def _undo() -> None:
    for name, write in _theirs.items():
        setattr(graph_compile, name, write)


unread_graphs_unwritten = Patch(_make, _undo)
