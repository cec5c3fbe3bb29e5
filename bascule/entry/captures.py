"""Dynamo's captures, during which the garbage collector is paused as it is while their graphs are compiled.

Dynamo tells of each capture before anybody knows of whose graphs: so collections go on where another compiler than ours is in use too.
"""

from typing import Any

from ..compat.graphs.dynamo import callback_handler, compilers_in_use
from ..compiler.gc_pause import pause, resume

_paused = False  # Dynamo tells of one capture at a time, with a lock held


def pause_in_captures() -> None:
    """From the next capture on. To be called again after `torch.compiler.reset`, which forgets whom Dynamo tells."""
    if _begin not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


def _begin(*_: Any) -> None:
    global _paused
    if not _paused and all(map(_is_ours, compilers_in_use())):
        pause()
        _paused = True


def _end(*_: Any) -> None:
    global _paused
    if _paused:
        _paused = False
        resume()


def _is_ours(compiler: Any) -> bool:
    """Whether `compiler`, as `torch.compile` keeps it, calls a function of ours."""
    module = getattr(getattr(compiler, "compiler_fn", compiler), "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]
