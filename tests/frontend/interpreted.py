"""A `torch.compile` backend for tests: graphs are imported, converted, and run by the reference interpreter."""

from collections.abc import Callable
from typing import Any

import torch
from bascule.dialect.interpreter import interpret_graph
from bascule.dialect.ir import context
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.rewriter import convert_module
from bascule.frontend.importer.graph import ImportedGraph, import_graph


class Interpreted:
    """The backend; `graphs` are those it converted, `torch_stage` the text of each before."""

    def __init__(self, fallback: str = "aten", eager_rounding: bool = False, target: str = "cpu"):
        self.asked = Asked(fallback, eager_rounding, target=target)
        self.graphs: list[ImportedGraph] = []
        self.torch_stage: list[str] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list) -> Callable:
        return compile_with_autograd(gm, example_inputs, self._compile, decomposition_table())

    def _compile(self, gm: torch.fx.GraphModule, example_inputs: list, **_: Any) -> Callable:
        graph = import_graph(gm, example_inputs, context=context())
        graph.module.operation.verify()
        self.torch_stage.append(str(graph.module))
        convert_module(graph.module, self.asked)
        graph.module.operation.verify()
        self.graphs.append(graph)

        def run(inputs: list) -> list:
            values = list(inputs)
            inputs.clear()
            with torch.no_grad():
                return interpret_graph(graph.module, values, graph.constants)

        run._boxed_call = True
        return run

    def called(self) -> set[str]:
        """The operators that the graphs call ATen for."""
        functions = [op.operation for graph in self.graphs for op in graph.module.body.operations]
        return {f.attributes["bascule.extern"].value for f in functions if "bascule.extern" in f.attributes}


def compiled(
    function: Callable, *, dynamic: bool | None = False, fullgraph: bool = True, **options: Any
) -> tuple[Callable, Interpreted]:
    """`function` compiled by a backend of its own, and the backend."""
    torch._dynamo.reset()
    backend = Interpreted(**options)
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=fullgraph), backend
