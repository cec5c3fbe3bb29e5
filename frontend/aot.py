"""AOTAutograd: a Dynamo graph becomes functional ATen graphs, forward, backward or inference, each given to a compiler.

The private modules of PyTorch that a backend needs for this are named here and nowhere else.
Checked on torch 2.13.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch._dynamo import disable
from torch._dynamo.utils import detect_fake_mode, flatten_graph_inputs
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode


class GraphCompiler(Protocol):
    """Compiles one functional graph. `example_inputs` are fake tensors, numbers and symbolic integers, one a
    placeholder.

    Returns a function with the boxed calling convention: it takes one list, which it empties, and returns a sequence.
    """

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, is_backward: bool, is_inference: bool
    ) -> Callable[[list[Any]], Sequence[Any]]: ...


def compile_with_autograd(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compiler: GraphCompiler,
    decompositions: dict[Any, Callable],
) -> Callable[..., Any]:
    """`gm` as Dynamo made it, compiled, with autograd through it.

    A graph that needs gradients is traced jointly with its backward and split by the min-cut partitioner, which saves
    what is cheap to save and recomputes what is cheap to recompute. In a graph that does not, mutations of inputs stay
    in the graph (`aten.copy_`).
    """
    if any(isinstance(x, list | tuple | dict) for x in example_inputs):  # compiled autograd passes lists
        again = partial(compile_with_autograd, compiler=compiler, decompositions=decompositions)
        return flatten_graph_inputs(gm, example_inputs, again)

    forward = partial(compiler, is_backward=False, is_inference=False)
    inference = partial(compiler, is_backward=False, is_inference=True)

    def backward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        # It runs when autograd first needs it, maybe inside a function that Dynamo (compiled autograd) is tracing:
        # neither the compiler nor what it makes is to be traced.
        make = disable(partial(compiler, is_backward=True, is_inference=False), reason="the backward compiler")
        return disable(make(gm, example_inputs), reason="a compiled backward")

    context = TracingContext.try_get()
    if context is None:  # called directly with a graph, not by Dynamo
        context = TracingContext(detect_fake_mode(example_inputs) or FakeTensorMode(allow_non_fake_inputs=True))
    # Ordered side effects (`torch.ops.aten._print`) carry no token arguments into the graphs.
    with tracing(context), functorch_config.patch(unlift_effect_tokens=True):
        compiled = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=forward,
            bw_compiler=backward,
            inference_compiler=inference,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=decompositions,
            keep_inference_input_mutations=True,
        )
    return disable(compiled, reason="a compiled graph")
