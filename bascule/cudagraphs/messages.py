"""Messages about CUDA graphs: the warnings, the log, the user's names of tensors, how a graph is replayed."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bascule.runtime.cudagraphs.recording import Input, Recording

from ..errors import ReplayWarning
from ..reporting.counters import count
from ..reporting.pool import Pool
from ..reporting.warnings_later import warn as warn_now_or_later

log = logging.getLogger("bascule")
NAMED = 3  # tensors that one message names
_LOCAL = re.compile(r"L\['(\w+)'\]")
_REGISTERED = re.compile(r"\._(?:parameters|buffers|modules)\['(\w+)'\]")


@dataclass
class ReplayReport:
    """Counts what becomes of a graph's recordings, and warns. `follows`: it is a backward, whose forward has told of it."""

    name: str
    follows: bool
    warned: bool = False

    def recorded(self) -> None:
        count("cudagraphs", "recordings")

    def recorded_again(self, moved: Sequence[Input]) -> None:
        count("cudagraphs", "recorded again")
        which = ", ".join(map(str, moved[:NAMED])) + (f" and {len(moved) - NAMED} more" if len(moved) > NAMED else "")
        why = f"{which} moved to other memory" if moved else "it comes after other graphs than before"
        log.info("%s is recorded again as a CUDA graph: %s", self.name, why)
        if moved and not self.follows and not self.warned:
            self.warned = True
            hint = "write into parameters and buffers (`copy_`) instead of replacing them"
            warn(f"{self.name} is recorded again as a CUDA graph: {why}; {hint}")

    def stopped(self, why: str) -> None:
        count("cudagraphs", "stopped")
        warn(f"{self.name} is no longer recorded as a CUDA graph: {why}")


def warn(text: str) -> None:
    warn_now_or_later(text, ReplayWarning, stacklevel=3)


def replay_text(what: Recording, pool: Pool) -> str:
    """How it is replayed, and what memory that takes."""
    copied = len(what.inputs) - len(what.static) - len(what.integers)
    return f"replayed: {len(what.static)} inputs stay in place, {copied} are copied; its pool has {pool}"


def user_name(node: torch.fx.Node) -> str:
    """`cache` for `L['cache']`, `self.weight` for `L['self']._parameters['weight']`, as Dynamo says where an input comes from; the placeholder's
    name if it does not."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = name() if callable(name) else name
    if not isinstance(text, str) or not text:
        return node.name
    return _LOCAL.sub(r"\1", _REGISTERED.sub(r".\1", text))
