"""`bascule.report` and `bascule report DIR`: what the page is made of, and where it is written."""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bascule.runtime.modules.profiled import RANGE

from ..compat.graphs.recompiles import last_compilation, recompiles_after
from ..dialect.tools.output import write
from ..entry.explain import Watched
from ..errors import UserError
from ..reporting.one_at_a_time import one_at_a_time
from ..user_paths import user_path
from .dump import graphs_of
from .page import page_of

RUNS = 5  # that are measured, after one that is not
_PATH = "report, parameter 'path'"


@one_at_a_time
def report(
    function: Callable[..., Any],
    *args: Any,
    path: str | Path = "bascule-report.html",
    calls: Sequence[Sequence[Any]] = (),
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Path:
    """Compiles `function` (or an nn.Module), runs it on the arguments, and writes a page about it to `path`, which it returns.

    The page is one file of HTML: code at each stage, linked line to line; kernels with bytes and times; what was not fused; memory; the
    times of the compile; calls of ATen, graph breaks, recompiles. `calls`: more tuples of arguments, which may be a reason to
    compile again. As for `explain`, the backward of outputs that require gradients is compiled and run too, and gradients of leaves
    are not touched. It runs seven times in all. Raises as compiling would.
    """
    if not callable(function):
        raise UserError(f"takes a function or a module, got {function!r}", location="report")
    if not all(isinstance(more, list | tuple) for more in calls):
        raise UserError("takes lists or tuples of arguments", location="report, parameter 'calls'")
    path = _place(path)
    name = getattr(function, "__qualname__", type(function).__name__)
    with tempfile.TemporaryDirectory(prefix="bascule-") as folder:
        given = {"dump": folder, **(options or {}), "profiler_mark_wrapper_call": True}
        before = last_compilation()
        watched = Watched(function, mode=mode, options=given, dynamic=dynamic)
        watched.run(*args, **kwargs)
        times = _measured(
            lambda: watched.run(*args, **kwargs)
        )  # before Dynamo prefers what it compiles for other calls
        for more in calls:
            watched.run(*more)
        told = {"breaks": watched.breaks, "recompiles": recompiles_after(before)}
        if not watched.records:
            raise UserError(
                f"no graph of '{name}' was compiled", location="report", hint="bascule.explain tells of graph breaks"
            )
        graphs = graphs_of(Path(user_path(given["dump"], "option 'dump'")))
    _add_times(graphs, times)
    return _write(path, page_of(f"{name}, compiled by Bascule", graphs, told))


def report_of_dump(folder: str | Path, path: str | Path = "bascule-report.html") -> Path:
    """Writes the page of a dump, and returns its path. What only a run tells, its times, graph breaks and recompiles, is not on it."""
    folder, path = Path(folder), _place(path)
    return _write(path, page_of(f"{folder.name}, compiled by Bascule", graphs_of(folder), {}))


def _place(given: str | Path) -> Path:
    """Where a page is written. Raises `UserError` for one that cannot be there, before anything is compiled for it."""
    path = Path(user_path(given, _PATH))
    if path.is_dir() or not path.parent.is_dir():
        wrong = f"'{path}' is a directory" if path.is_dir() else f"there is no directory '{path.parent}'"
        raise UserError(wrong, location=_PATH)
    return path


def _write(path: Path, text: str) -> Path:
    write(text.encode(errors="backslashreplace"), str(path))  # a file's name may have half a character
    return path


Times = dict[
    tuple[str, str], list[float]
]  # of ranges of the profiler: the name of the one around it, empty where there is none, and its own


def _measured(run: Callable[[], None]) -> Times:
    """Microseconds of each range in runs."""
    run()
    gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    with profile(activities=[ProfilerActivity.CPU, *gpu]) as profiler:
        for _ in range(RUNS):
            run()
    found: Times = {}
    for event in profiler.events() or ():
        around = event.cpu_parent
        # That of a run has no graph's name; the one around it has.
        while around is not None and around.name.startswith(RANGE):
            around = around.cpu_parent
        name = "" if around is None else around.name
        found.setdefault((name, event.name), []).append(event.time_range.elapsed_us())
    return found


def _add_times(graphs: list[dict[str, Any]], times: Times) -> None:
    """Adds the median time of each kernel to the manifests."""
    having = Counter(kernel["name"] for graph in graphs for kernel in _kernels(graph))
    for graph in graphs:
        for kernel in _kernels(graph):
            name = kernel["name"]
            found = times.get((f"bascule_{graph['name']}", name), [])
            if (
                not found and having[name] == 1
            ):  # of a GPU, or of a part of a graph: a name that no other has tells which
                found = [time for (_, other), seen in times.items() if other == name for time in seen]
            kernel["measured_us"] = median(found) if found else None


def _kernels(graph: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if graph["manifest"] is None else graph["manifest"]["kernels"]
