"""A program for each FX pass, which the pass changes. Those of passes for GPUs run here as if a CPU were one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from bascule.frontend.fx_passes import narrow_sorts, pad_mm, padding_costs
from bascule.frontend.fx_passes.attention_structure import mark_attention_products
from bascule.frontend.fx_passes.conv_bias import peel_biases
from bascule.frontend.fx_passes.open_attentions import open_attentions, open_drawing_attentions
from bascule.frontend.fx_passes.pad_mm import pad_products
from bascule.frontend.fx_passes.part_batch_sums import part_batch_sums
from bascule.frontend.fx_passes.seed_dropout import seed_dropouts
from bascule.frontend.fx_passes.tiled_convolutions import multiply_tiles
from bascule.frontend.partitioner.attention_statistics import save_attention_statistics
from bascule.frontend.partitioner.recompute_activation_masks import recompute_masks
from torch.nn import functional as F

from .efficient_attention import attention, twice

ATTENTION = (mark_attention_products, save_attention_statistics)
ALL_PASS = 1e-9  # probability of a dropout that draws numbers, and drops no element


@dataclass(frozen=True)
class Program:
    """`function` of what `inputs` makes, as often as it is called; without `trains`, under `torch.no_grad()`."""

    function: Callable[..., Any]
    inputs: Callable[[], Sequence[torch.Tensor]]
    trains: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, float] = field(default_factory=dict)


@torch.library.custom_op("fx_pipeline::seen", mutates_args=())
def seen(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.library.custom_op("fx_pipeline::looking", mutates_args=())
def looking(x: torch.Tensor) -> torch.Tensor:
    return x * 3


for operator in (seen, looking):
    operator.register_fake(torch.empty_like)
seen.register_autograd(
    lambda ctx, g: g * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
looking.register_autograd(
    lambda ctx, g: g * 3 if g.sum().item() > -1e9 else None, setup_context=lambda ctx, inputs, output: None
)


def leaves(*sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> Callable[[], list[torch.Tensor]]:
    return lambda: [torch.randn(*one, dtype=dtype, requires_grad=True) for one in sizes]


def constants(*sizes: Sequence[int], **how: Any) -> Callable[[], list[torch.Tensor]]:
    return lambda: [torch.randn(*one).to(**how) for one in sizes]


def normalized(x, w, b, mean, variance):
    return F.batch_norm(x, mean, variance, w, b, training=True)


def norm_inputs():
    x, w, b = leaves((4, 32, 5, 7), (32,), (32,))()
    return x, w, b, torch.zeros(32), torch.ones(32)


def printing_cond(x):
    def printing(x):
        torch.ops.aten._print("fx_pipeline")
        return x.sin()

    return torch.cond(x.detach().sum() > -1e6, printing, lambda x: x.cos(), (x,)) * x


def convolution(x, w, b):
    return torch.tanh(F.conv2d(x, w, b))


def patches(x, w):
    return torch.tanh(F.conv2d(x.sin(), w, stride=4))


def indexed_by_data(x, i):
    return x.masked_select(x > 0)[i] * 2


def expert_masks(x, w):
    return ((x @ w).masked_fill(x.topk(2, -1)[1] >= x.shape[1], 0.0) * 2).tanh()


def sorted_experts(x):
    values, places = x.argmax(1).sort(stable=True)
    return x.sin()[places] * values[:, None]


CONVOLUTION = ((2, 4, 9, 8), (6, 4, 3, 3), (6,))
PATCHES = ((2, 3, 9, 8), (6, 3, 4, 4))
PRODUCT = ((24, 16), (16, 37))
UNALIGNED = ((6, 3, 9, 8), (13, 3, 4, 4))
BIASED = (*[(2, 3, 20, 16)] * 3, (1, 3, 20, 20))
SHARED = (*[(5, 2, 20, 16)] * 3, (1, 2, 20, 20))
HALF = {"dtype": torch.bfloat16}
ROUNDED = {"rtol": 2e-2, "atol": 2e-2}


def held_norm() -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3), torch.nn.BatchNorm2d(6)).eval()


def held_product() -> Callable[[torch.Tensor], torch.Tensor]:
    weight = torch.nn.Linear(8, 8)
    return lambda x: x @ (weight.weight * 2).sin()


FREEZING = {"freezing": True}
CHANNELS_LAST = {"memory_format": torch.channels_last}


def layers(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    for weight in weights:
        y = F.layer_norm(x, (16,)) @ weight
        x = x + F.gelu(y.sin() * 0.5).tanh() * y.sigmoid() + y.relu().neg()
    return x


PROGRAMS = {
    "seed-bodies": Program(
        lambda x: torch.cond(x.sum() > -1e6, lambda x: F.dropout(x.sin(), ALL_PASS), lambda x: x.cos(), (x,)) * 2,
        leaves((4, 6)),
    ),
    "simplify-attention-masks": Program(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(8, 8, dtype=torch.bool).tril()),
        leaves(*[(2, 3, 8, 16)] * 3),
        tolerance={"rtol": 1e-4, "atol": 1e-5},
    ),
    "outline-regions": Program(layers, leaves((4, 16), *[(16, 16)] * 8, dtype=torch.float64)),
    "keep-effects-in-forward": Program(printing_cond, leaves((4, 6))),
    "drop-copies": Program(lambda x, w: x.relu().clone() @ w, leaves((4, 6), (6, 3))),
    "drop-unused-operands": Program(lambda *x: normalized(*x).relu(), norm_inputs),
    "expand-repeats": Program(lambda x: torch.cat([x.sin()] * 2, 1).exp(), leaves((4, 6))),
    "open-batch-norms": Program(lambda *x: F.silu(normalized(*x)), norm_inputs, tolerance={"rtol": 1e-4, "atol": 1e-5}),
    "merge-equal-nodes": Program(lambda x: x.exp().sin() + x.exp(), leaves((4, 6))),
    "part-batch-sums": Program(twice, leaves(*SHARED, **HALF), tolerance={"rtol": 0.05, "atol": 0.05}),
    "open-attentions": Program(attention, leaves(*BIASED, **HALF), tolerance={"rtol": 0.05, "atol": 0.05}),
    "multiply-tiles": Program(patches, leaves(*PATCHES, dtype=torch.float64)),
    "open-drawing-attentions": Program(
        lambda *x: attention(*x, dropout=ALL_PASS), leaves(*BIASED, **HALF), tolerance={"rtol": 0.05, "atol": 0.05}
    ),
    "pad-products": Program(torch.mm, leaves(*PRODUCT, **HALF), tolerance=ROUNDED),
    "gather-permuted-rows": Program(
        lambda x, k: x.sin()[k.argsort() // 2].cos(), lambda: [torch.randn(4, 6, requires_grad=True), torch.randn(8)]
    ),
    "drop-known-masks": Program(expert_masks, leaves((4, 6), (6, 2)), tolerance={"rtol": 1e-4, "atol": 1e-5}),
    "narrow-sorts": Program(sorted_experts, leaves((24, 6))),
    "narrow-pooling-indices": Program(lambda x: F.max_pool2d(x.sin(), 3, 2, 1), leaves((2, 3, 11, 14))),
    "check-indexed-sizes": Program(
        indexed_by_data, lambda: [torch.arange(-3.0, 4.0), torch.tensor([0, 1])], trains=False
    ),
    "check-indices": Program(lambda x, i: x[i] * 2, lambda: [torch.randn(5, requires_grad=True), torch.tensor([4, 0])]),
    "fold-constants": Program(held_product(), constants((4, 8)), trains=False, options=FREEZING),
    "fold-into-convolutions": Program(
        held_norm(),
        constants((2, 4, 9, 8)),
        trains=False,
        options=FREEZING,
        tolerance={"rtol": 1e-4, "atol": 1e-5},
    ),
    "lay-out-convolution-weights": Program(
        torch.nn.Conv2d(4, 6, 3), constants((2, 4, 9, 8), **CHANNELS_LAST), trains=False, options=FREEZING
    ),
    "peel-biases": Program(convolution, leaves(*CONVOLUTION), tolerance={"rtol": 1e-4, "atol": 1e-4}),
    "recompute-activation-masks": Program(lambda *x: normalized(*x).relu(), norm_inputs),
    "save-extremes": Program(lambda x: x.sin().amax(1), leaves((4, 6))),
    "save-seen-calls": Program(lambda x: seen(x.exp()) * 2, leaves((4, 6))),
    "seed-dropouts": Program(lambda x: F.dropout(x.sin(), ALL_PASS).exp(), leaves((4, 6))),
    "mark-attention-products": Program(
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v,
        constants(*[(2, 3, 20, 16)] * 3, dtype=torch.bfloat16),
        trains=False,
        tolerance={"rtol": 0.05, "atol": 0.05},
    ),
    "save-attention-statistics": Program(
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v,
        leaves(*[(2, 3, 20, 16)] * 3, dtype=torch.bfloat16),
        tolerance={"rtol": 0.05, "atol": 0.05},
    ),
    "mark-data-dependent-operators": Program(lambda x: looking(x.sin()), leaves((4, 6))),
}
# Passes of more stages than the program of their names shows.
ALSO = {
    "merge-equal-nodes": Program(lambda x: x.softmax(-1) * x.log_softmax(-1), constants((4, 6)), trains=False),
    "open-attentions": Program(
        attention, constants(*BIASED, **HALF), trains=False, tolerance={"rtol": 0.05, "atol": 0.05}
    ),
    "pad-products": Program(
        lambda a, b, x, w: (a @ b, patches(x, w)),
        constants(*PRODUCT, *UNALIGNED, **HALF),
        trains=False,
        tolerance=ROUNDED,
    ),
    "drop-known-masks": Program(
        expert_masks, constants((4, 6), (6, 2)), trains=False, tolerance={"rtol": 1e-4, "atol": 1e-5}
    ),
    "narrow-sorts": Program(sorted_experts, constants((24, 6)), trains=False),
    "multiply-tiles": Program(patches, constants(*PATCHES, dtype=torch.float64), trains=False),
    "peel-biases": Program(convolution, constants(*CONVOLUTION), trains=False, tolerance={"rtol": 1e-4, "atol": 1e-5}),
}


def as_on_a_gpu(monkeypatch: Any) -> None:
    """Passes meant for GPUs change graphs on a CPU, products and sorts of small sizes among these."""
    for function in (
        multiply_tiles,
        narrow_sorts.narrow_sorts,
        open_attentions,
        open_drawing_attentions,
        pad_products,
        part_batch_sums,
        peel_biases,
        recompute_masks,
        seed_dropouts,
        *ATTENTION,
    ):
        monkeypatch.setattr(function, "__defaults__", (("cpu",),))
    monkeypatch.setattr(narrow_sorts, "LONG", 8)
    monkeypatch.setattr(pad_mm, "WORK", 1)
    monkeypatch.setattr(pad_mm, "LEAST", 8)
    monkeypatch.setattr(padding_costs, "BYTES", 1e30)  # copies cost nothing
