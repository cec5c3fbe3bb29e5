"""The min-cut partitioner, given a joint graph that passes have prepared, and told that it may fuse composite operators that have rules here.

The partitioner's own lists know what Inductor decomposes such operators into. It takes an operator that is not on them for one that needs its
operands in memory, and so saves what could be computed again for nothing. The names of PyTorch's lists were checked
on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident
from typing import Any
from unittest.mock import patch

import torch
from torch.fx import GraphModule

from bascule.compat.graphs.aot_autograd import config as functorch_config
from bascule.compat.graphs.partitioners import LazyGraphModule, OrderedSet, partitioners, use_lazy_graph_module

from ..fx_pipeline.pipeline import FxPipeline
from .held_tensors import mark_held
from .minimum_cut import Unbounded, minimum_cut
from .written_inputs import with_inputs_as_given

aten, prims = torch.ops.aten, torch.ops.prims

# Their operands are read where they are used, and computed there if they are not in memory.
FUSED = (
    aten._log_softmax_backward_data,
    aten._native_batch_norm_legit_functional,
    aten._softmax_backward_data,
    aten.embedding_dense_backward,
    aten.leaky_relu_backward,
    aten.native_batch_norm_backward,
    aten.native_dropout_backward,
    aten.native_group_norm_backward,
    aten.native_layer_norm,
    aten.native_layer_norm_backward,
    aten.nll_loss_backward,
    aten.nll_loss_forward,
    aten.scatter,
    aten.scatter_add,
    aten.sigmoid_backward,
    aten.silu_backward,
    aten.tanh_backward,
)

# Of one element a result, and cheap: computed again rather than saved.
POINTWISE = (
    aten._prelu_kernel,
    aten.floor_divide,
    aten.hardswish,
    aten.log_sigmoid_forward,
    aten.ones_like,
    aten.special_erfinv,
    aten.special_ndtr,
    aten.tril,
    prims.inductor_lookup_seed,
    prims.inductor_random,
)


def min_cut(
    joint: GraphModule,
    inputs: Any,
    *,
    passes: FxPipeline | None = None,
    split: Callable[..., tuple[GraphModule, GraphModule]] = partitioners.min_cut_rematerialization_partition,
    **kwargs: Any,
) -> tuple[GraphModule, GraphModule]:
    """A joint graph split into forward and backward by the min-cut partitioner, or `split`, after the `passes` of the stage "joint".

    These have what is saved be what both sides read, and stand in place of the partitioner's own CSE.
    """
    (passes or FxPipeline()).run("joint", joint)
    with functorch_config.patch(cse=False), _composites_fused(), _quick_cut(), _code_on_demand():
        visible = kwargs["num_fwd_outputs"]
        forward, backward = with_inputs_as_given(joint, visible, lambda gm: split(gm, inputs, **kwargs))
    mark_held(forward, backward, visible)
    return forward, backward


@contextmanager
def _quick_cut() -> Iterator[None]:
    """Without networkx's search for the flow, which took half of what the partitioner takes for a GPT-2 of 24 layers."""
    import networkx  # not above: a warm start needs none of it

    theirs = networkx.minimum_cut

    def cut(graph: Any, source: str, sink: str) -> tuple[float, tuple[set[str], set[str]]]:
        try:
            return minimum_cut(graph.adjacency(), source, sink)
        except Unbounded:
            return theirs(graph, source, sink)  # type: ignore[no-any-return] # raises in its own words

    with patch.object(networkx, "minimum_cut", cut):
        yield


@contextmanager
def _code_on_demand() -> Iterator[None]:
    """The partitioner's last steps, each of which makes a module of the backward, leave modules that make their code when it is asked for. The
    copy that AOTAutograd keeps would make it once more, and nobody runs it."""
    reordered, raised = partitioners.reordering_to_mimic_autograd_engine, partitioners.raise_getitems

    def lazily_reordered(gm: GraphModule) -> GraphModule:
        with _no_code():
            found = reordered(gm)
        return found if found is gm else LazyGraphModule.from_graphmodule(found)

    def lazily_raised(gm: GraphModule) -> GraphModule:
        with use_lazy_graph_module(True):
            return raised(LazyGraphModule.from_graphmodule(gm))

    with (
        patch.object(partitioners, reordered.__name__, lazily_reordered),
        patch.object(partitioners, raised.__name__, lazily_raised),
    ):
        yield


@contextmanager
def _no_code() -> Iterator[None]:
    """Modules that this thread makes have no code."""
    theirs, thread = GraphModule.recompile, get_ident()

    def recompile(gm: GraphModule) -> Any:
        return None if get_ident() == thread else theirs(gm)

    with patch.object(GraphModule, "recompile", recompile):
        yield


@contextmanager
def _composites_fused() -> Iterator[None]:
    """The partitioner takes the operators of `FUSED` and `POINTWISE` for fused with what makes their operands, and the latter for cheap."""
    known = partitioners.get_default_op_list

    def extended() -> partitioners.OpTypes:
        types, alias = known(), OrderedSet([aten.detach])
        return replace(
            types,
            fusible_ops=types.fusible_ops | OrderedSet(FUSED + POINTWISE) | alias,
            recomputable_ops=types.recomputable_ops | OrderedSet(POINTWISE) | alias,
            view_ops=types.view_ops | alias,
        )

    with patch.object(partitioners, "get_default_op_list", extended):
        yield
