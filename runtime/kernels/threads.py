"""How many threads a kernel may use."""

import os

import torch

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


# OpenMP's threads do not survive a fork: a parallel region in the child would wait for them for ever.
os.register_at_fork(after_in_child=_after_fork)


def thread_count() -> int:
    """Threads for this call: `torch.get_num_threads()`, or one in a process that was forked after this was imported."""
    return 1 if _forked else torch.get_num_threads()
