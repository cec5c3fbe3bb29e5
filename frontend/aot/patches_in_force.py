"""All changes that are in force while a graph is traced."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..torch_patches.custom_op_gradients import opaque_gradients
from ..torch_patches.decompositions.affine_grids import affine_grids
from ..torch_patches.decompositions.multilabel_margin_loss import multilabel_margins_right
from ..torch_patches.decompositions.recurrent_layers import layers_dropped_out, trained_lstms_apart
from ..torch_patches.decompositions.whole_interpolation import whole_resampling
from ..torch_patches.dense_tangents import dense_tangents
from ..torch_patches.dirty_inputs import dirty_inputs_written
from ..torch_patches.dynamo_skip_files import keep_untraced
from ..torch_patches.float_remainders import float_remainders
from ..torch_patches.higher_order_effects import body_effects
from ..torch_patches.lazy_size_proxies import size_proxies_on_demand
from ..torch_patches.linear_algebra_effects import checks_kept
from ..torch_patches.skip_graph_text import unread_graphs_unwritten
from ..torch_patches.synthetic_bases import synthetic_bases_right
from ..torch_patches.views_of_written_inputs import views_of_written_inputs_right
from ..torch_patches.written_views import written_views_right


@contextmanager
def export_patches() -> Iterator[None]:
    """Those that change what an exported program is decomposed into, which has no gradients."""
    with body_effects, checks_kept, layers_dropped_out, written_views_right:
        yield


@contextmanager
def trace_patches() -> Iterator[None]:
    """The changes, for as long as anybody is inside; our own files stay untraced for good."""
    keep_untraced()
    with (
        opaque_gradients,
        whole_resampling,
        body_effects,
        checks_kept,
        multilabel_margins_right,
        affine_grids,
        float_remainders,
        trained_lstms_apart,
        layers_dropped_out,
        size_proxies_on_demand,
        unread_graphs_unwritten,
        dense_tangents,
        dirty_inputs_written,
        synthetic_bases_right,
        views_of_written_inputs_right,
        written_views_right,
    ):
        yield
