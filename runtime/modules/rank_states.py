"""States of ranks, as each last told its own in the store by which they met: when a compile begins, ends or fails, and when a collective fails.

So a rank that waits in vain can say where the others are. Nothing is told where there is one process.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch.distributed as dist

PATIENCE = (
    2.0  # seconds in which a failing rank waits for the others to fail: they meet their time-outs at other moments
)
_PAUSE = 0.1


@dataclass(frozen=True)
class RankState:
    """`begun`: collectives that the rank has begun, by the name of the group. `time`: of its clock."""

    text: str
    time: float
    begun: dict[str, int]
    waits: bool = False  # in a collective

    def told(self, group: str) -> str:
        begun = "" if group not in self.begun else f"; {self.begun[group]} collectives of the group begun"
        return f"{self.text}, {max(0.0, time.time() - self.time):.1f} s ago{begun}"


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Tells the other ranks that this one compiles `name` meanwhile, and if that fails."""
    if not _has_ranks():
        yield
        return
    tell(f"began to compile {name}")
    try:
        yield
    except BaseException as error:
        first = next(iter(str(error).splitlines()), "")
        tell(f"failed to compile {name}: {type(error).__name__}: {first}")
        raise
    tell(f"compiled {name}")


def tell(text: str, *, waits: bool = False) -> None:
    """Tells what this rank is at."""
    if not _has_ranks():
        return
    from bascule.compat.tensors.process_groups import collectives_begun, default_store

    state = RankState(text, time.time(), collectives_begun(), waits)
    try:
        default_store().set(_key(dist.get_rank()), json.dumps(asdict(state)))
    except RuntimeError:  # the store went with the process that held it: there is nobody to tell
        return


def states_of(group: Any, since: float) -> dict[int, RankState | None]:
    """The last known state of each rank of `group`, by its global number; None where one has told nothing.

    Waits a moment for those that have not failed in a collective since `since`.
    """
    from bascule.compat.tensors.process_groups import default_store

    store, end = default_store(), time.monotonic() + PATIENCE
    while True:
        found = {rank: _read(store, rank) for rank in dist.get_process_group_ranks(group)}
        late = [state for state in found.values() if state is None or not (state.waits and state.time >= since)]
        if not late or time.monotonic() > end:
            return found
        time.sleep(_PAUSE)


def _read(store: Any, rank: int) -> RankState | None:
    try:
        return RankState(**json.loads(store.get(_key(rank)))) if store.check([_key(rank)]) else None
    except (RuntimeError, ValueError):  # the store is gone, or only stands for one
        return None


def _key(rank: int) -> str:
    return f"bascule/state/{rank}"


def _has_ranks() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
