"""Functions run by several processes at once, connected by gloo over a file and the loopback interface. None of them waits for ever.

The processes are forks of one that has imported what they need, and stay for the next function, until one fails.
"""

import atexit
import faulthandler
import multiprocessing
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import wait
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist

COUNT = 4
SECONDS = 60.0  # for one function
PRELOADED = "tests.generators.warm_ranks"


class RankError(Exception):
    """A process failed, or was not done in time; the text says which, and what it said."""


class _Ranks:
    """`COUNT` processes that wait for functions."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])
        self.folder = tempfile.TemporaryDirectory()
        pipes = [context.Pipe() for _ in range(COUNT)]
        self.connections = [ours for ours, _ in pipes]
        self.processes = [
            context.Process(target=_serve, args=(rank, f"{self.folder.name}/store", theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()
        self.gathered(self.connections, SECONDS)  # each says that it has met the others

    def gathered(self, connections: Sequence[Any], seconds: float) -> list[Any]:
        """Receives from each of `connections`."""
        results: dict[int, Any] = {}
        end = monotonic() + seconds
        while len(results) < len(connections):
            waiting = {connection: rank for rank, connection in enumerate(connections) if rank not in results}
            ready = wait([*waiting], timeout=max(0.0, end - monotonic()))
            if not ready:
                raise RankError(f"after {seconds} s, not done: processes {sorted(waiting.values())}")
            for connection in ready:
                try:
                    failure, results[waiting[connection]] = pickle.loads(connection.recv_bytes())
                except EOFError:
                    failure = "it is gone"
                if failure is not None:
                    raise RankError(f"process {waiting[connection]}: {failure}")
        return [results[rank] for rank in range(len(connections))]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.folder.cleanup()


_ranks: _Ranks | None = None


def on_ranks(count: int, function: Callable[..., Any], *arguments: Any, seconds: float = SECONDS) -> list[Any]:
    """Runs `function(rank, group, *arguments)` in each of `count` processes, which are those of `group`; returns the results. All that is
    given and returned can be pickled.

    Raises `RankError`, where one fails or takes more than `seconds`; all are ended then, since the others may wait for it.
    """
    global _ranks
    _ranks = _ranks or _Ranks()
    try:
        for connection in _ranks.connections[:count]:
            connection.send_bytes(pickle.dumps((count, function, arguments, seconds)))
        return _ranks.gathered(_ranks.connections[:count], seconds)
    except BaseException:
        end_ranks()
        raise


@atexit.register
def end_ranks() -> None:
    """Ends the processes, if there are any; new ones start when they are needed."""
    global _ranks
    if _ranks is not None:
        _ranks.end()
        _ranks = None


def _serve(rank: int, store: str, connection: Any) -> None:
    os.environ |= {"BASCULE_CACHE_DIR": "", "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    met, limit = dist.FileStore(store, COUNT), timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", store=met, rank=rank, world_size=COUNT, timeout=limit)
    groups = {count: dist.new_group([*range(count)], timeout=limit) for count in range(1, COUNT + 1)}
    connection.send_bytes(pickle.dumps((None, None)))
    while True:
        try:
            count, function, arguments, seconds = pickle.loads(connection.recv_bytes())
        except EOFError:  # nobody is left to ask
            os._exit(0)
        faulthandler.dump_traceback_later(2 * seconds, exit=True)
        try:
            told = None, function(rank, groups[count], *arguments)
        except BaseException:
            told = traceback.format_exc(), None
        faulthandler.cancel_dump_traceback_later()
        connection.send_bytes(pickle.dumps(told))
