"""Ways to compile a function of tensors: the backend itself, with or without Dynamo, and the reference interpreter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from bascule.dialect.interpreter import interpret_graph
from bascule.dialect.ir import context
from bascule.dialect.passes import Pipeline
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.importer.graph import import_graph

from bascule.entry.backend import compile_dynamo_graph
from bascule.reporting.compile_record import Record
from bascule.reporting.graph_summary import Summary
from bascule.reporting.module_summary import summary_of
from tests.operators.opinfo import duplicate, tensor_leaves


@dataclass
class Compiled:
    """The compiled graphs of a function: forward, backward, those between graph breaks."""

    summaries: list[Summary] = field(default_factory=list)
    cuts: dict[str, str] = field(default_factory=dict)  # operators that run between compiled parts, with the reason

    def add(self, record: Record) -> None:
        self.cuts |= {cut.operator: cut.reason for cut in record.cuts}
        if record.compiled:
            self.summaries.append(record.summary)

    def aten(self) -> dict[str, str]:
        """The ATen operators that its graphs call, with the reason."""
        return self.cuts | {call.operator: call.reason for summary in self.summaries for call in summary.aten}

    def kernels(self) -> int:
        return sum(len(summary.kernels) for summary in self.summaries)


# (a graph as Dynamo makes it, its example inputs, where to note what was compiled) -> the compiled graph
Backend = Callable[[torch.fx.GraphModule, Sequence[Any], Compiled], Callable[..., Any]]


def bascule(target: str = "auto", random: str = "philox") -> Backend:
    """The backend itself, with the options `target` and `random`."""
    options = {"on_error": "raise", "target": target, "random": random}

    def backend(gm, example_inputs, compiled):
        return compile_dynamo_graph(gm, example_inputs, options=options, on_record=compiled.add)

    return backend


def interpreted(pipeline: str) -> Backend:
    """The reference interpreter on what `pipeline` leaves of the imported graph."""
    passes = Pipeline.parse(pipeline)

    def backend(gm, example_inputs, compiled):
        def compiler(gm, example_inputs, **_):
            imported = import_graph(gm, example_inputs, context=context())
            passes.run(imported.module, verify=True)
            compiled.summaries.append(summary_of(imported.module))

            def run(args):
                values = list(args)
                args.clear()
                return interpret_graph(imported.module, values, imported.constants)

            run._boxed_call = True
            return run

        return compile_with_autograd(gm, example_inputs, compiler, decomposition_table())

    return backend


@dataclass(frozen=True)
class Compiler:
    """Compiles a function of tensors by `backend`: through Dynamo, with graph breaks where it makes them, or without it.

    `drawing`: the backend that draws the random numbers that eager draws, if there is one."""

    backend: Backend
    dynamo: bool
    drawing: Backend | None = None

    def __call__(
        self, function: Callable[..., Any], tensors: Sequence[torch.Tensor], compiled: Compiled
    ) -> Callable[..., list[torch.Tensor]]:
        if self.dynamo:
            run = torch.compile(function, backend=lambda gm, xs: self.backend(gm, xs, compiled), dynamic=False)
            return lambda *xs: tensor_leaves(run(*xs))
        outputs = len(tensor_leaves(function(*map(duplicate, tensors))))
        run = self.backend(graph_of(function, outputs, tensors), list(tensors), compiled)
        return lambda *xs: list(run(*xs))


def graph_of(function: Callable[..., Any], outputs: int, tensors: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """A graph of one node that calls `function`, as Dynamo would have captured it: AOTAutograd traces through the call."""
    graph = torch.fx.Graph()
    placeholders = [graph.placeholder(f"x{i}") for i in range(len(tensors))]
    call = graph.call_function(lambda *xs: tensor_leaves(function(*xs)), tuple(placeholders))
    graph.output(tuple(graph.call_function(lambda xs, i: xs[i], (call, i)) for i in range(outputs)))
    return torch.fx.GraphModule({}, graph)
