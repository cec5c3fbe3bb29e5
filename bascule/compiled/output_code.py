"""A compiled graph as Inductor's callers and AOTAutograd's cache expect one."""

from collections.abc import Sequence
from typing import Any

from bascule.runtime.boxed import boxed

from ..compat.inductor.settings import OutputCode
from .compiled_graph import CompiledGraph


class _NoKey:
    """The key of a graph that is not cached: none, also to who asks whether it has the attribute, as PyTorch 2.11 does."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        raise AttributeError("this graph is not kept")


class CompiledFxGraph(OutputCode):
    """A compiled graph as an `OutputCode`: called with one list of inputs, which it empties, or a tuple, it returns the outputs.

    `kept`: under what the disk cache has it, for `frontend/aot/autograd_cache.py`; without it AOTAutograd's results are not kept.
    """

    _fx_graph_cache_key = _NoKey()

    def __init__(self, graph: CompiledGraph, kept: Any = None):
        self.call, self.finished = graph.call, graph.finished
        boxed(self)
        if kept is not None:
            self._fx_graph_cache_key = kept

    def __call__(self, inputs: list[Any] | tuple[Any, ...]) -> Sequence[Any]:
        return self.call(inputs if isinstance(inputs, list) else list(inputs))

    def prepare_for_serialization(self) -> None:
        """PyTorch's own caches do not get it: their keys know nothing of our options and versions."""
        from ..compat.graphs.autograd_cache import BypassAOTAutogradCache

        raise BypassAOTAutogradCache("Bascule keeps what it compiled in its own cache")

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Output strides have been reported and inputs need no check: there is nothing left to do."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Our kernels are not in Inductor's bundles."""
