"""The IR of a Python function at a stage of the compiler: its graphs by Dynamo and AOTAutograd, imported, and passes up to that stage."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bascule.dialect.ir import context
from bascule.errors import BasculeError, UserError
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx.trace_context import compile_at_hand
from bascule.frontend.importer.graph import import_graph

from ..compat.graphs.dynamo import reset
from ..compat.tensors.pytree import tree_leaves
from ..compiled.eager import operator_by_operator
from ..compiler.autograd_graph import direction_of
from ..options import Options
from ..pipelines import up_to
from ..reporting.module_identity import identify
from ..reporting.raise_through_dynamo import TorchDynamoException, raised_as_is


def check_call(function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Raises `UserError` for inputs that `function` does not take."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        inspect.signature(called).bind(*inputs)
    except TypeError as error:
        hint = f"there are {len(inputs)} example inputs; --inputs gives others"
        raise UserError(f"the function does not take its inputs: {error}", hint=hint) from None
    except ValueError:  # a function without a signature
        pass


def machine_of(target: str) -> dict[str, Any]:
    """The facts that passes are told of `target`: "cpu", this one, or "sm_" and a compute capability. Raises `UserError` for another."""
    if target == "cpu":
        return {}
    if not re.fullmatch(r"sm_\d+a?", target):
        raise UserError(
            f"there is no target '{target}'", location="--target", hint="cpu, or for example sm_80, sm_90, sm_100"
        )
    return {"target": "cuda", "capability": int(re.sub(r"\D", "", target))}


def import_function(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    stage: str,
    options: Options,
    grad: bool,
    dynamic: bool,
    target: str = "cpu",
) -> list[Any]:
    """The modules of `function`'s graphs at `stage`: one, or with `grad` forward and backward. `target`: "cpu", or a GPU as "sm_90".

    Raises `UserError` for inputs and a function that PyTorch does not take, and what the stages raise.
    """
    check_call(function, inputs)
    pipeline, modules = up_to(stage, options, machine_of(target)), []

    def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kind: bool) -> Callable:
        module = import_graph(gm, example_inputs, context=context()).module
        identify(
            module, getattr(function, "__name__", type(function).__name__), direction_of(**kind), compile_at_hand()
        )
        pipeline.run(module)
        modules.append(module)
        return operator_by_operator(gm)

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        with raised_as_is():
            return compile_with_autograd(gm, example_inputs, compiler, decomposition_table())

    reset()
    try:
        with torch.set_grad_enabled(grad):
            out = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic or None)(*inputs)
    except TorchDynamoException as error:
        if isinstance(error, BasculeError):
            raise
        raise UserError(f"Dynamo makes no graph of the function: {type(error).__name__}: {error}") from error
    if grad:  # a backward may be compiled only when it is first needed
        leaves = [leaf for leaf in tree_leaves(out) if getattr(leaf, "requires_grad", False)]
        if not leaves:
            raise UserError(
                "no output needs a gradient", hint="--grad wants floating-point inputs that require gradients"
            )
        torch.autograd.backward(leaves, [torch.ones_like(leaf) for leaf in leaves])
    return modules
