"""Name -> pass. Our own stand in a table; others come from the entry-point group `bascule.passes` or `--load-pass`."""

import os
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from ..errors import UserError
from ..interrupts import pass_on
from .base import Pass

# name -> module below this package, by stage, and class
_OWN: dict[str, tuple[str, str]] = {
    "expand-products": ("tensor.expand_products", "ExpandProducts"),
    "simplify-indexing": ("tensor.simplify_indexing", "SimplifyIndexing"),
    "fold-views": ("tensor.fold_views", "FoldViews"),
    "fuse-attention": ("tensor.fuse_attention", "FuseAttention"),
    "fuse-products": ("tensor.fuse_products", "FuseProducts"),
    "gather-scatters": ("tensor.gather_scatters", "GatherScatters"),
    "segment-scatters": ("tensor.segment_scatters", "SegmentScatters"),
    "collapse-domains": ("tensor.collapse_domains", "CollapseDomains"),
    "split-domains": ("tensor.split_domains", "SplitDomains"),
    "split-reductions": ("tensor.split_reductions", "SplitReductions"),
    "drop-roundings": ("tensor.drop_roundings", "DropRoundings"),
    "inline-producers": ("tensor.inline_producers", "InlineProducers"),
    "widen-intermediates": ("tensor.widen_intermediates", "WidenIntermediates"),
    "cse-computes": ("tensor.cse_computes", "CseComputes"),
    "simplify-masks": ("kernel.simplify_masks", "SimplifyMasks"),
    "form-kernels": ("kernel.form_kernels", "FormKernels"),
    "isolate-kernels": ("kernel.isolate_kernels", "IsolateKernels"),
    "flatten-kernels": ("kernel.flatten_kernels", "FlattenKernels"),
    "group-launches": ("kernel.group_launches", "GroupLaunches"),
    "join-launches": ("kernel.join_launches", "JoinLaunches"),
    "online-softmax": ("kernel.online_softmax", "OnlineSoftmax"),
    "split-pieces": ("kernel.split_pieces", "SplitPieces"),
    "schedule-kernels": ("kernel.schedule_kernels", "ScheduleKernels"),
    "choose-products": ("program.choose_products", "ChooseProducts"),
    "order-program": ("program.order_program", "OrderProgram"),
    "bufferize-kernels": ("program.bufferize_kernels", "BufferizeKernels"),
    "separate-outputs": ("program.separate_outputs", "SeparateOutputs"),
    "spare-arguments": ("program.donate_arguments", "SpareArguments"),
    "plan-memory": ("program.plan_memory", "PlanMemory"),
}

_added: dict[str, type[Pass]] = {}


def add(cls: type[Pass]) -> None:
    """Makes a pass class known by its `name` in this process."""
    if not (isinstance(cls, type) and issubclass(cls, Pass)):
        raise UserError(f"{cls!r} is not a subclass of bascule.dialect.passes.Pass")
    if not isinstance(getattr(cls, "name", None), str):
        raise UserError(f"{cls!r} has no name", hint='give it a `name: ClassVar[str] = "..."`')
    if cls.name in _OWN:
        raise UserError(f"a pass named '{cls.name}' exists already", hint="give the new pass another name")
    _added[cls.name] = cls


def load(spec: str) -> type[Pass]:
    """Imports `module:Class` and adds it. Modules in the current directory are found, as with `python -m`."""
    module, _, name = spec.partition(":")
    if not (module and name):
        raise UserError(f"'{spec}' names no pass", hint="give it as module:Class")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        cls = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        hint = "a module is looked for in the current directory, in $PYTHONPATH and among what is installed"
        raise UserError(f"cannot load the pass '{spec}': {error}", hint=hint) from None
    except Exception as error:  # the user's module raises whatever it raises
        pass_on(error)
        raise UserError(f"cannot load the pass '{spec}': {type(error).__name__}: {error}") from error
    add(cls)
    return cls


@cache
def _entry_points() -> dict:
    return {entry.name: entry for entry in entry_points(group="bascule.passes")}


def own_names() -> list[str]:
    """The names of Bascule's own passes, in the order in which they usually run."""
    return [*_OWN, *(name for name, entry in _entry_points().items() if entry.value.startswith("bascule."))]


def names() -> list[str]:
    """The names of all passes that are known, in alphabetical order."""
    return sorted({*_OWN, *_added, *_entry_points()})


def find(name: str) -> type[Pass] | None:
    """The class of the pass called `name`, or None."""
    if name in _OWN:
        module, cls = _OWN[name]
        return getattr(import_module(f"{__package__}.{module}"), cls)
    if name in _added:
        return _added[name]
    if name in _entry_points():
        entry = _entry_points()[name]
        try:
            return entry.load()
        except Exception as error:  # a package's module raises whatever it raises
            pass_on(error)
            text = f"cannot load the pass '{name}' from '{entry.value}': {type(error).__name__}: {error}"
            raise UserError(text, location="the entry points bascule.passes") from error
    return None
