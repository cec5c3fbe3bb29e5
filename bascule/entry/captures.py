"""Dynamo's captures, during which the garbage collector is paused as it is while their graphs are compiled, and Dynamo spares work that nobody
sees.

Dynamo tells of each capture before anybody knows of whose graphs: so all is as ever where another compiler than ours is in use too.
"""

from contextlib import ExitStack
from typing import Any

from bascule.frontend.torch_patches.captures.foreseen_breaks import foreseen_breaks
from bascule.frontend.torch_patches.captures.guard_latency import guards_timed_warm
from bascule.frontend.torch_patches.captures.local_classes import local_classes_once
from bascule.frontend.torch_patches.captures.local_map_import import local_map_as_imported
from bascule.frontend.torch_patches.captures.roomy_captures import roomy_captures
from bascule.frontend.torch_patches.captures.source_places import log_headers_on_demand, stack_texts_once
from bascule.frontend.torch_patches.captures.verbose_config import verbose_at_hand

from ..compat.graphs.dynamo import callback_handler, compilers_in_use
from ..compiler.gc_pause import pause, resume

_patches = (
    foreseen_breaks,
    guards_timed_warm,
    local_classes_once,
    local_map_as_imported,
    log_headers_on_demand,
    roomy_captures,
    stack_texts_once,
    verbose_at_hand,
)
_captures: list[ExitStack] = []  # the one in progress: Dynamo tells of one at a time, with a lock held


def pause_in_captures() -> None:
    """From the next capture on. To be called again after `torch.compiler.reset`, which forgets whom Dynamo tells."""
    if _begin not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


def _begin(*_: Any) -> None:
    if not _captures and all(map(_is_ours, compilers_in_use())):
        with ExitStack() as stack:
            pause()
            stack.callback(resume)
            for patch in _patches:
                stack.enter_context(patch)
            _captures.append(stack.pop_all())


def _end(*_: Any) -> None:
    if _captures:
        _captures.pop().close()


def _is_ours(compiler: Any) -> bool:
    """Whether `compiler`, as `torch.compile` keeps it, calls a function of ours."""
    module = getattr(getattr(compiler, "compiler_fn", compiler), "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]
