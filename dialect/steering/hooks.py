"""The base class of plug-ins that take decisions, and what they are told: the ops, the costs, the default answer.

Nothing here needs MLIR: options are made without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..mlir import ir


@dataclass(frozen=True)
class Fusion:
    """May `consumers` run in one kernel with `producers`, or with ops that read what they read? It would be correct."""

    asked_by: str  # the pass
    producers: "tuple[ir.Operation, ...]"  # what is in the kernel already; or the compute that would be inlined
    consumers: "tuple[ir.Operation, ...]"
    saved_bytes: int  # of memory traffic
    ops: int  # in the bodies of all
    default: bool
    reason: str  # why not, where the default is no


@dataclass(frozen=True)
class Scheduling:
    """Schedule that `kernel`, a `bascule.kernel` in the function `name`, is to have."""

    kernel: "ir.Operation"
    name: str
    target: str  # cpu or cuda
    points: int  # of its domain, with 512 for each symbol
    ops: int  # in its body
    bytes: int  # that it reads and stores, each tensor once
    default: "ir.DictAttr"  # the keys of `#bascule.schedule`


@dataclass(frozen=True)
class Ordering:
    """In what order are `ops`, those of a graph function, to run? An order is their numbers here."""

    ops: "tuple[ir.Operation, ...]"  # as they stand
    after: tuple[frozenset[int], ...]  # of each, what has to come before it
    peak_bytes: int  # of what is live at once, in the default order
    written_bytes: int  # the same, in the order in which they stand
    default: tuple[int, ...]


class Hooks:
    """A plug-in: a subclass overrides what it wants to decide. Each method returns None for the default.

    The ops are there to be looked at (`op.location`, `op.attributes`): a hook that changes IR breaks the pass that asks.
    """

    def uuid(self) -> str | None:
        """Tells these decisions from others, in the keys of the disk cache: name and version of the plug-in, and its settings. None: graphs
        that were compiled with these hooks are not kept."""
        return None

    def may_fuse(self, fusion: Fusion) -> bool | None:
        """Whether they share a kernel."""
        return None

    def schedule(self, scheduling: Scheduling) -> "ir.DictAttr | None":
        """The schedule: `changed(scheduling.default, ...)` of `dialect/steering/schedule_changes.py` makes one of the default."""
        return None

    def order(self, ordering: Ordering) -> Sequence[int] | None:
        """The order; one in which something comes before what it needs is refused."""
        return None
