"""Counters of what happened in this process."""

from collections import Counter
from threading import Lock

_lock = Lock()
_counters: dict[str, Counter] = {}

# What is counted. `graphs`: compiled, fallback. `kernels`: launches a run of the graphs, distinct ones. `aten`: calls a run of
# the graphs, by operator and reason. `fallbacks`: graphs that were not compiled, by reason.
# `cuts`: operators at which graphs were cut into parts, by operator and reason.
# `cudagraphs`: graphs that are replayed, recordings made, graphs that are not replayed, by reason, graphs of which no more is recorded.
# `cache`: what the disk cache did with compiled graphs: hit, miss, stored, bypass and refused with the reason; of kernels and schedules what was
# refused; `remote ..`: what the remote cache did with entries of all kinds, see `bascule/cache/remote/remote_cache.py`. `traces`: what the disk
# cache did with the results of AOTAutograd, with which nothing is traced: the same as with graphs. `freezing`: what became of weights that are
# constants; graphs that are not frozen, by reason. `collectives`: what is predicted of those of all graphs, in nanoseconds a run. `tiers`: calls
# that PyTorch's operators ran while kernels were compiled, graphs that changed over to their kernels, that had them at once, and that did not
# get them. `fx_passes`: what a pass over FX graphs left as it was though it looked for it, by pass and reason.
GROUPS = (
    *("graphs", "kernels", "aten", "fallbacks", "cuts", "cudagraphs", "cache", "traces", "freezing", "collectives"),
    *("tiers", "fx_passes"),
)


def count(group: str, key: str, number: int = 1) -> None:
    """Adds `number` to counter `key` of `group`."""
    assert group in GROUPS, group
    with _lock:
        _counters.setdefault(group, Counter())[key] += number


def counters() -> dict[str, dict[str, int]]:
    """A copy of all counters: group -> name -> number. Groups: see `GROUPS`."""
    with _lock:
        return {group: dict(_counters.get(group, {})) for group in GROUPS}


def reset_counters() -> None:
    with _lock:
        _counters.clear()
