"""The option `freezing`: an inference graph holds the parameters and buffers that it is first called with.

What follows from them alone is computed once.
"""

import warnings
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.frontend.freezing.weight_inputs import WeightInputs, frozen_inputs, with_constants
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.runtime.boxed import Boxed, boxed

from ..compat.tensors.fake_tensors import FakeTensor
from ..compiled.compiled_graph import CompiledGraph
from ..errors import FreezingWarning
from ..reporting.counters import count

Compiler = Callable[[GraphModule, Sequence[Any]], CompiledGraph]

_MOST = 8  # sets of weights that one graph is compiled for


# Pass of the stage "frozen" -> the counter of what it changed.
_COUNTED = {
    "fold-constants": "constants folded",
    "fold-into-convolutions": "folded into convolutions",
    "lay-out-convolution-weights": "weights of convolutions laid out",
}


def freeze(gm: GraphModule, weights: dict[int, torch.Tensor], passes: FxPipeline) -> GraphModule:
    """A copy of `gm`, a functional graph, that holds the inputs `weights`, by number, and what `passes` compute from them beforehand."""
    frozen = with_constants(gm, weights)
    first = len(passes.runs)
    passes.run("frozen", frozen)
    for run in passes.runs[first:]:
        count("freezing", _COUNTED[run.name], run.changes)
    frozen.delete_all_unused_submodules()
    frozen.recompile()
    return frozen


class Frozen:
    """`gm`, compiled by `compile_` at its first call with the weights of that call as constants.

    A call with other weights (of another module that shares the code) is compiled for these, up to `_MOST` times; after that the graph takes
    its weights as inputs again. Which tensors the weights are is looked at, not what they contain.
    """

    def __init__(
        self,
        gm: GraphModule,
        example_inputs: Sequence[Any],
        numbers: Sequence[int],
        compile_: Compiler,
        passes: FxPipeline,
    ):
        boxed(self)
        self.gm, self.example_inputs, self.numbers, self.compile = gm, list(example_inputs), numbers, compile_
        self.passes = passes
        self.last: tuple[list[torch.Tensor], Boxed] | None = None
        self.known: list[tuple[list[torch.Tensor], Boxed]] = []
        self.plain: Boxed | None = None
        self.lock = Lock()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        last = self.last
        weights = [args[n] for n in self.numbers]
        same = last is not None and all(a is b for a, b in zip(weights, last[0]))
        call = last[1] if last is not None and same else self._for(weights)
        if call is not self.plain:
            for n in reversed(self.numbers):
                del args[n]
        return call(args)

    def _for(self, weights: list[torch.Tensor]) -> Boxed:
        with self.lock:
            for known in self.known:
                if all(_same(a, b) for a, b in zip(weights, known[0])):
                    self.last = weights, known[1]
                    return known[1]
            if len(self.known) == _MOST or any(isinstance(w, FakeTensor) for w in weights):
                if self.plain is None:
                    if len(self.known) == _MOST:
                        warnings.warn(
                            f"a graph was called with more than {_MOST} sets of weights: with further ones it runs unfrozen",
                            FreezingWarning,
                            stacklevel=3,
                        )
                    self.plain = self.compile(self.gm, self.example_inputs).call
                return self.plain
            inputs = [x for n, x in enumerate(self.example_inputs) if n not in set(self.numbers)]
            call = self.compile(freeze(self.gm, dict(zip(self.numbers, weights)), self.passes), inputs).call
            self.last = weights, call
            self.known.append(self.last)
            return call


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both are one memory. What is known keeps its memory, so no other tensor can have got it."""
    return a is b or (a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride())


def freezing(
    name: str, weights: WeightInputs, compile_: Compiler, passes: FxPipeline, *, is_inference: bool
) -> Compiler:
    """`compile_` for a graph called `name`, which freezes it by `passes` when it is first called; as it is, after a warning, for one with
    gradients."""
    if not is_inference:
        _not_frozen(name, "it computes gradients: call it under torch.no_grad()")
        return compile_

    def compile_frozen(gm: GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        numbers = frozen_inputs(gm.graph, weights)
        if numbers:
            return CompiledGraph(Frozen(gm, example_inputs, numbers, compile_, passes))
        if weights.numbers:
            _not_frozen(
                name,
                "none of its parameters and buffers stays as it is (it writes them, or they are tensor subclasses)",
            )
        return compile_(gm, example_inputs)

    return compile_frozen


def _not_frozen(name: str, why: str) -> None:
    count("freezing", f"not frozen: {why.partition(':')[0].partition(' (')[0]}")
    warnings.warn(f"the option 'freezing' does nothing for {name}: {why}", FreezingWarning, stacklevel=4)
