"""Name -> pass over FX graphs: a table, in the order in which passes run within a stage. A pass is imported when it runs.

A pass is a function of a `torch.fx.Graph` or of a `GraphModule`, which it changes in place; it returns how many places it changed. Its
docstring's first sentence is what lists of passes say of it. Nothing here imports PyTorch.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from bascule.dialect.errors import UserError

# Where passes run, in order.
STAGES = {
    "dynamo": "the graph of PyTorch functions that Dynamo captured",
    "trace": "the same, while AOTAutograd traces it; in the graph that it makes, nothing is seen of these passes",
    "joint": "forward and backward of a training step as one graph, before it is split",
    "inference": "the graph of an inference, before the user's passes",
    "checks": "a forward or an inference, after the user's passes",
    "frozen": "an inference that holds its weights",
    "final": "an inference on its way to the import",
}
# What a pass may need, beside a graph of its stage.
NEEDS = {
    "captured": "a call of `torch.compile`",
    "gradients": "a training step",
    "philox": 'the option `random="philox"`',
    "index-asserts": "the option `index_asserts`",
    "fused-products": "a pipeline with `fuse-products`",
}


@dataclass(frozen=True)
class FxPass:
    """A pass over FX graphs. `place`: "module:function" below `frontend`; `on_module`: the function takes the GraphModule, not its graph;
    `needs`: of `NEEDS`, all of which hold where it runs; `interpreted`: it takes the CPU for a GPU where the target is `interpret`;
    `required`: why it cannot be switched off."""

    name: str
    stages: tuple[str, ...]
    place: str
    on_module: bool = False
    needs: tuple[str, ...] = ()
    interpreted: bool = False
    required: str = ""

    @property
    def function(self) -> Callable[[Any], int]:
        module, _, name = self.place.partition(":")
        return getattr(import_module(f"..{module}", __package__), name)

    def summary(self) -> str:
        """The first sentence of the docstring."""
        return re.split(r"(?<=\.)\s", inspect.cleandoc(self.function.__doc__ or ""))[0].replace("\n", " ")

    def when(self) -> str:
        """The conditions on which it runs, and the devices on which it changes graphs; empty where that is everywhere."""
        devices = inspect.signature(self.function).parameters.get("devices")
        told = [NEEDS[need] for need in self.needs]
        return ", ".join([*told, *(f"tensors on {device}" for device in (devices.default if devices else ()))])


_TABLE = (
    FxPass(
        "seed-bodies",
        ("dynamo",),
        "fx_passes.seed_bodies:seed_bodies",
        on_module=True,
        needs=("captured", "philox", "gradients"),
        required="the backward of a body would draw other numbers than its forward did",
    ),
    FxPass("simplify-attention-masks", ("dynamo",), "fx_passes.attention_masks:simplify_masks", on_module=True),
    FxPass(
        "keep-effects-in-forward",
        ("joint",),
        "torch_patches.higher_order_effects:keep_in_forward",
        required="operators with effects would be moved into the backward, or lost",
    ),
    FxPass("drop-copies", ("joint",), "fx_passes.normalize_joint:drop_copies"),
    FxPass("drop-unused-operands", ("joint",), "fx_passes.normalize_joint:drop_unused_operands"),
    FxPass("expand-repeats", ("joint",), "fx_passes.normalize_joint:expand_repeats"),
    FxPass("outline-regions", ("trace",), "regions.trace_once:outline_regions", on_module=True),
    FxPass("open-batch-norms", ("joint",), "fx_passes.batch_norm:open_batch_norms"),
    FxPass("merge-equal-nodes", ("joint", "inference"), "fx_passes.cse:merge_equal_nodes"),
    FxPass(
        "part-batch-sums",
        ("joint",),
        "fx_passes.part_batch_sums:part_batch_sums",
        needs=("fused-products",),
        interpreted=True,
    ),
    FxPass(
        "open-attentions",
        ("joint", "inference"),
        "fx_passes.open_attentions:open_attentions",
        needs=("fused-products",),
        interpreted=True,
    ),
    FxPass(
        "open-drawing-attentions",
        ("joint",),
        "fx_passes.open_attentions:open_drawing_attentions",
        needs=("fused-products", "philox"),
        interpreted=True,
    ),
    FxPass("peel-biases", ("joint", "final"), "fx_passes.conv_bias:peel_biases", interpreted=True),
    FxPass("multiply-tiles", ("joint", "final"), "fx_passes.tiled_convolutions:multiply_tiles", interpreted=True),
    FxPass("pad-products", ("joint", "inference", "final"), "fx_passes.pad_mm:pad_products"),
    FxPass("gather-permuted-rows", ("joint",), "fx_passes.permuted_rows:gather_permuted_rows"),
    FxPass("drop-known-masks", ("joint", "inference"), "fx_passes.known_masks:drop_known_masks"),
    FxPass("narrow-sorts", ("joint", "inference"), "fx_passes.narrow_sorts:narrow_sorts", interpreted=True),
    FxPass("narrow-pooling-indices", ("joint",), "fx_passes.narrow_pool_indices:narrow_pooling_indices"),
    FxPass(
        "check-indexed-sizes",
        ("checks",),
        "runtime_checks.indexed_sizes:check_indexed_sizes",
        on_module=True,
        required="a kernel would access memory before a tensor that data left without elements",
    ),
    FxPass(
        "check-indices",
        ("checks",),
        "runtime_checks.index_checks:check_indices",
        on_module=True,
        needs=("index-asserts",),
        required="an index out of range would be clamped; the option index_asserts=False asks for that",
    ),
    FxPass("fold-constants", ("frozen",), "freezing.constant_folding:fold_constants", on_module=True),
    FxPass("fold-into-convolutions", ("frozen",), "freezing.conv_folding:fold_into_convolutions", on_module=True),
    FxPass(
        "lay-out-convolution-weights",
        ("frozen",),
        "freezing.conv_weight_layout:lay_out_convolution_weights",
        on_module=True,
    ),
    FxPass("recompute-activation-masks", ("joint",), "partitioner.recompute_activation_masks:recompute_masks"),
    FxPass(
        "save-extremes",
        ("joint",),
        "partitioner.save_extrema:save_extremes",
        required="a gradient may find no element that equals the extreme, and be NaN",
    ),
    FxPass(
        "save-seen-calls",
        ("joint",),
        "partitioner.save_calls:save_seen_calls",
        required="calls that others see would be made again by a backward",
    ),
    FxPass(
        "seed-dropouts",
        ("joint",),
        "fx_passes.seed_dropout:seed_dropouts",
        needs=("philox",),
        interpreted=True,
    ),
    FxPass(
        "mark-attention-products",
        ("inference",),
        "fx_passes.attention_structure:mark_attention_products",
        needs=("fused-products",),
        interpreted=True,
    ),
    FxPass(
        "save-attention-statistics",
        ("joint",),
        "partitioner.attention_statistics:save_attention_statistics",
        needs=("fused-products",),
        interpreted=True,
    ),
    FxPass(
        "mark-data-dependent-operators",
        ("joint",),
        "torch_patches.custom_op_gradients:mark_operators",
        required="graphs with custom operators whose gradients look at data would be captured as CUDA graphs",
    ),
)
PASSES = {each.name: each for each in _TABLE}


def passes_at(stage: str) -> Iterator[FxPass]:
    """The passes of `stage`, in the order in which they run."""
    return (each for each in _TABLE if stage in each.stages)


def find(name: str) -> FxPass:
    """The pass called `name`. Raises `UserError` for one nobody knows."""
    if name not in PASSES:
        close = get_close_matches(str(name), PASSES, n=1)
        like = f" (did you mean '{close[0]}'?)" if close else ""
        raise UserError(f"there is no FX pass '{name}'{like}", hint=f"known: {', '.join(PASSES)}")
    return PASSES[name]
