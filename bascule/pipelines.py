"""The pipeline: which passes run, in which order, on every graph."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch

from bascule.frontend.fx.matmul_precision import allows_tf32

from .errors import UserError
from .options import Options

if TYPE_CHECKING:  # who asks for names needs no MLIR
    from .dialect.passes import Pipeline

# MLIR's own cse runs where there are no computes: it compares those of one type pair by pair (they capture what they read, so they hash alike).
DEFAULT = (
    # the imported graph -> the tensor stage
    "torch-to-bascule",
    "bucket-collectives",  # before what depends on costs, which differ from rank to rank
    "prefetch-gathers",
    "delay-weight-gradients",
    "expand-convolutions",
    "expand-quantized-products",
    "expand-products",  # while the transposition of a weight is a view that is read through
    "expand-grouped-products",
    "fold-views",
    "simplify-indexing",
    "inline-producers",
    "fold-one-hot-sums",  # when what a sum adds stands in it
    "fuse-attention",  # when masks stand where they are read
    "fuse-products",
    "chunk-rows",  # when what reads a large tensor is few computes
    "gather-scatters",  # when what a scatter adds stands in it
    "segment-scatters",
    "collapse-domains",
    "split-domains",
    "split-reductions",  # when a reduction's elements stand in it, before computes share kernels
    "drop-roundings",
    "canonicalize",
    "cse-computes",
    "widen-intermediates",  # when all that is inlined is
    # -> the kernel stage
    "form-kernels",
    "drop-roundings",  # in a kernel more values meet their readers with no memory between
    "cse",
    "simplify-masks",  # when a mask stands beside what it multiplies
    "isolate-kernels",
    "flatten-kernels",
    "group-launches",
    "join-launches",
    "online-softmax",
    "split-pieces",
    "unroll-windows",
    "interchange-loops",  # when no pass makes or moves loops any more
    "schedule-kernels",
    # -> the program stage
    "choose-products",
    "order-program",
    "overlap-collectives",  # in the order that is good for memory
    "overlap-host-copies",
    "bufferize-kernels",
    "reinplace-collectives",  # in their last order, before memory is planned
    "separate-outputs",
    "nullable-tangents",  # before arguments are donated
    "spare-arguments",
    "plan-memory",
)

# Passes that do not run where there is a memory budget: what they join waits, with all that it reads, for its last part. For the same reason
# kernels that depend on nothing of each other stay apart, and any order that needs less memory is taken.
UNBUDGETED = ("group-launches", "join-launches")
BUDGETED = {"form-kernels": "form-kernels{max-parts=1}", "order-program": "order-program{gain=1}"}

# Passes that leave everything as it is on a CPU. Its pipeline has none of them: their modules, and those of a GPU's machine, are a twentieth of
# the time that importing the compiler takes.
ON_GPUS = frozenset(
    (
        "expand-convolutions",
        "expand-quantized-products",
        "expand-products",
        "expand-grouped-products",
        "fuse-attention",
        "fuse-products",
        "gather-scatters",
        "segment-scatters",
        "flatten-kernels",
        "group-launches",
        "join-launches",
        "online-softmax",
        "unroll-windows",
    )
)

# Options that a pass may have as a field of its own.
SHARED = ("fallback", "numerics", "random")

TORCH_TO_BASCULE = "torch-to-bascule"
# Stage -> the pass that leaves it.
STAGES = {"torch": None, "tensor": TORCH_TO_BASCULE, "kernel": "schedule-kernels", "program": "plan-memory"}


def has_pass(options: Options, name: str) -> bool:
    """Whether the pass `name` runs. Without MLIR, if `pipeline` is not given. Raises `UserError` as `pipeline_for`."""
    return (
        name in default_for(options)
        if options.pipeline is None
        else any(p.name == name for p in pipeline_for(options).stages)
    )


def default_for(options: Options, target: str | None = None) -> tuple[str, ...]:
    """The passes that run where `options` name none; on `target`, if it is known."""
    left_out = {*(() if options.memory_budget is None else UNBUDGETED), *(ON_GPUS if target == "cpu" else ())}
    return tuple(name for name in DEFAULT if name not in left_out)


def text_for(options: Options, target: str | None = None) -> str:
    """The pipeline that runs where `options` name none: see `default_for`."""
    settings = {} if options.memory_budget is None else BUDGETED
    return ",".join(settings.get(name, name) for name in default_for(options, target))


def pipeline_for(options: Options, machine: Mapping[str, Any] | None = None, *, trained: bool = False) -> "Pipeline":
    """The passes for `options`. A pass with a field named as one of `SHARED` or of `machine` (see `Target.machine`), which its text leaves at
    the default, takes the option's value, or what the machine has; so does one with a field `deterministic`, where PyTorch is asked for
    deterministic algorithms and the machine is a GPU, on which points run in any order; one with a field `index_asserts`, or `tf32`, on a GPU;
    and one with a field `default_dtype` or `fill_uninitialized`, which are PyTorch's now. A pipeline that `options` do not spell has those of
    `ON_GPUS` unless `machine` is a CPU. `trained`: the graph is the forward or the backward of a training step, for passes with such a field.

    Raises `UserError` with the column for a pipeline that does not parse.
    """
    from .dialect.ir.scalar_types import SCALAR_TYPES
    from .dialect.passes import Pipeline

    asked = {name: getattr(options, name) for name in SHARED} | dict(machine or {})
    text = text_for(options, asked.get("target")) if options.pipeline is None else options.pipeline
    gpu = asked.get("target") == "cuda"
    deterministic = torch.are_deterministic_algorithms_enabled()
    asked["deterministic"] = deterministic and gpu
    asked["fill_uninitialized"] = deterministic and torch.utils.deterministic.fill_uninitialized_memory
    # On a CPU the graph has checks: `frontend/runtime_checks/index_checks.py`.
    asked["index_asserts"] = options.index_asserts and gpu
    asked["tf32"] = gpu and allows_tf32()
    asked["trained"] = trained
    asked["default_dtype"] = SCALAR_TYPES[str(torch.get_default_dtype()).removeprefix("torch.")][1]
    stages = []
    for stage in Pipeline.parse(text).stages:
        shared = {
            f.name: asked[f.name] for f in fields(stage) if f.name in asked and getattr(stage, f.name) == f.default
        }
        stages.append(replace(stage, **shared) if shared else stage)
    return Pipeline(tuple(stages))


def up_to(stage: str, options: Options, machine: Mapping[str, Any] | None = None) -> "Pipeline":
    """The passes for `options` that lead to `stage`: one of `STAGES`, or a pass of theirs, where it runs last.

    Raises `UserError` where the option `pipeline` has no such pass.
    """
    from .dialect.passes import Pipeline

    whole, last = pipeline_for(options, machine), STAGES.get(stage, stage)
    if last is None:
        return Pipeline(())
    if stage == "program":
        return whole
    names = [each.name for each in whole.stages]
    if last not in names:
        raise UserError(
            f"has no value '{stage}': no pass '{last}' runs",
            location="option 'stage'",
            hint=f"known: {', '.join(dict.fromkeys([*STAGES, *names]))}",
        )
    return Pipeline(whole.stages[: len(names) - names[::-1].index(last)])
