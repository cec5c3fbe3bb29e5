"""Ways to compile a function of tensors: the backend itself, with or without Dynamo, and the reference interpreter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bascule.backend import compile_dynamo_graph
from bascule.dialect.interpreter import interpret_graph
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import EXTERN, REASON, functions, is_extern, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.frontend.aot import compile_with_autograd
from bascule.frontend.decompositions import decomposition_table
from bascule.frontend.importer import import_graph

from .opinfo import tensor_leaves


@dataclass
class Compiled:
    """What was compiled for a function: its modules (forward, backward, parts between graph breaks)."""

    modules: list[ir.Module] = field(default_factory=list)

    def aten(self) -> dict[str, str]:
        """The ATen operators that its graphs call, with the reason."""
        found = {}
        for module in self.modules:
            for function in filter(is_extern, functions(module)):
                attributes = function.attributes
                found[attributes[EXTERN].value] = attributes[REASON].value if REASON in attributes else ""
        return found

    def kernels(self) -> int:
        return sum(kernel_op(f) is not None for module in self.modules for f in functions(module))


# (function of tensors, example tensors, where to note what was compiled) -> the compiled function
Compiler = Callable[[Callable[..., Any], Sequence[torch.Tensor], Compiled], Callable[..., list[torch.Tensor]]]
OPTIONS = {"on_error": "raise"}


def graph_of(function: Callable[..., Any], outputs: int, tensors: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """A graph of one node that calls `function`, as Dynamo would have captured it: AOTAutograd traces through the call."""
    graph = torch.fx.Graph()
    placeholders = [graph.placeholder(f"x{i}") for i in range(len(tensors))]
    for placeholder, tensor in zip(placeholders, tensors):
        placeholder.meta["example_value"] = tensor
    call = graph.call_function(lambda *xs: tensor_leaves(function(*xs)), tuple(placeholders))
    graph.output(tuple(graph.call_function(lambda xs, i: xs[i], (call, i)) for i in range(outputs)))
    return torch.fx.GraphModule({}, graph)


def without_dynamo(function, tensors, compiled):
    """The backend, given the graph directly."""
    outputs = len(tensor_leaves(function(*tensors)))
    gm = graph_of(function, outputs, tensors)
    run = compile_dynamo_graph(
        gm, list(tensors), options=OPTIONS, on_record=lambda record: compiled.modules.append(record.module)
    )
    return lambda *xs: list(run(*xs))


def with_dynamo(function, tensors, compiled):
    """`torch.compile`, with graph breaks where Dynamo makes them."""

    def backend(gm, example_inputs):
        note = compiled.modules.append
        return compile_dynamo_graph(gm, example_inputs, options=OPTIONS, on_record=lambda record: note(record.module))

    run = torch.compile(function, backend=backend, dynamic=False)
    return lambda *xs: tensor_leaves(run(*xs))


def interpreted(pipeline: str) -> Compiler:
    """The reference interpreter on what `pipeline` leaves of the imported graph."""
    passes = Pipeline.parse(pipeline)

    def compiler(gm, example_inputs, **_):
        imported = import_graph(gm, example_inputs, context=context())
        passes.run(imported.module, verify=True)
        compiler.compiled.modules.append(imported.module)

        def run(args):
            values = list(args)
            args.clear()
            return interpret_graph(imported.module, values, imported.constants)

        run._boxed_call = True
        return run

    def compile_(function, tensors, compiled):
        outputs = len(tensor_leaves(function(*tensors)))
        compiler.compiled = compiled
        run = compile_with_autograd(
            graph_of(function, outputs, tensors), list(tensors), compiler, decomposition_table()
        )
        return lambda *xs: list(run(*xs))

    return compile_
