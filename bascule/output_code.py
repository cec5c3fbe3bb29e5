"""A compiled graph as Inductor's callers expect one. Names private modules of PyTorch; checked on torch 2.13."""

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor.output_code import OutputCode


class CompiledGraph(OutputCode):
    """A boxed function as an `OutputCode`: called with one list of inputs, which it empties, it returns the outputs."""

    def __init__(self, call: Callable[[list[Any]], Sequence[Any]]):
        self.call = call
        self._boxed_call = True  # of the instance: who wraps it copies its dictionary

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        return self.call(inputs)

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Output strides have been reported and inputs need no check: there is nothing left to do."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Our kernels are not in Inductor's bundles."""
