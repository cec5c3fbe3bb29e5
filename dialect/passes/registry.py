"""Name -> pass. Our own stand in a table; others come from the entry-point group `bascule.passes` or `--load-pass`."""

import re
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from ..errors import UserError
from ..interrupts import pass_on
from ..user_classes import load_class, specification
from .base import Pass
from .upstream import refusal

# name -> module below this package, by stage, and class
_OWN: dict[str, tuple[str, str]] = {
    "bucket-collectives": ("tensor.bucket_collectives", "BucketCollectives"),
    "prefetch-gathers": ("tensor.prefetch_gathers", "PrefetchGathers"),
    "delay-weight-gradients": ("tensor.delay_weight_gradients", "DelayWeightGradients"),
    "expand-convolutions": ("products.expand_convolutions", "ExpandConvolutions"),
    "expand-quantized-products": ("products.expand_quantized_products", "ExpandQuantizedProducts"),
    "expand-products": ("products.expand_products", "ExpandProducts"),
    "expand-grouped-products": ("products.expand_grouped_products", "ExpandGroupedProducts"),
    "simplify-indexing": ("tensor.simplify_indexing", "SimplifyIndexing"),
    "fold-views": ("tensor.fold_views", "FoldViews"),
    "fuse-attention": ("products.fuse_attention", "FuseAttention"),
    "fuse-products": ("products.fuse_products", "FuseProducts"),
    "gather-scatters": ("tensor.gather_scatters", "GatherScatters"),
    "segment-scatters": ("tensor.segment_scatters", "SegmentScatters"),
    "chunk-rows": ("tensor.chunk_rows", "ChunkRows"),
    "collapse-domains": ("tensor.collapse_domains", "CollapseDomains"),
    "split-domains": ("tensor.split_domains", "SplitDomains"),
    "split-reductions": ("tensor.split_reductions", "SplitReductions"),
    "drop-roundings": ("tensor.drop_roundings", "DropRoundings"),
    "inline-producers": ("tensor.inline_producers", "InlineProducers"),
    "fold-one-hot-sums": ("tensor.fold_one_hot_sums", "FoldOneHotSums"),
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
    "unroll-windows": ("kernel.unroll_windows", "UnrollWindows"),
    "interchange-loops": ("kernel.interchange_loops", "InterchangeLoops"),
    "schedule-kernels": ("kernel.schedule_kernels", "ScheduleKernels"),
    "choose-products": ("program.choose_products", "ChooseProducts"),
    "order-program": ("program.order_program", "OrderProgram"),
    "overlap-collectives": ("program.overlap_collectives", "OverlapCollectives"),
    "reinplace-collectives": ("program.reinplace_collectives", "ReinplaceCollectives"),
    "overlap-host-copies": ("program.overlap_host_copies", "OverlapHostCopies"),
    "bufferize-kernels": ("program.bufferize_kernels", "BufferizeKernels"),
    "separate-outputs": ("program.separate_outputs", "SeparateOutputs"),
    "nullable-tangents": ("program.nullable_tangents", "NullableTangents"),
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
    if not re.fullmatch(r"[A-Za-z_][\w.\-]*", cls.name):
        hint = "letters, digits, '-', '_' and '.', a letter first, as in fold-views"
        raise UserError(f"'{cls.name}' is no name of a pass, which {specification(cls)} gives", hint=hint)
    known = _added.get(cls.name)
    if known is None:
        own = cls.name in own_names() and not cls.__module__.startswith(
            "bascule."
        )  # one of ours may be named by its class
        whose = "Bascule" if own else "MLIR" if refusal(cls.name) is None else None
    else:  # a module that is loaded again replaces its class
        whose = None if specification(known) == specification(cls) else specification(known)
    if whose is not None:
        raise UserError(f"a pass named '{cls.name}' exists already, of {whose}", hint="give the new pass another name")
    _added[cls.name] = cls


def load(spec: str) -> type[Pass]:
    """Imports `module:Class`, or `path/to/file.py:Class`, and adds it. Modules in the current directory are found, as with `python -m`."""
    cls = load_class(spec, "pass")
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
