"""PyTorch's minifier around our compiler, as `TORCHDYNAMO_REPRO_AFTER="aot"` asks for it.

`TORCHDYNAMO_REPRO_LEVEL`: 1 writes a graph that does not compile or run; 2, the default, makes it smaller first, as long as it fails in the
same way; 3 writes each graph before it is compiled; 4 makes smaller what computes other values than its operators, too. What is
written is a Python file that fails when it is run. The minifier's own script always compiles with Inductor, so ours is written here.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from bascule.frontend.aot.retrace import with_values
from bascule.runtime.boxed import boxed
from bascule.runtime.cudagraphs.recording import Direction

from ..compat.graphs.dynamo import config, minifier_dir
from ..compat.graphs.partitioners import minifier
from ..compat.tensors.fake_tensors import FakeTensor, unset_fake_temporarily
from ..compiled.compiled_graph import CompiledGraph
from ..dialect.interrupts import pass_on
from ..options import Options
from .accuracy import disagreements
from .compare_results import copied, copy_of, draws
from .reproducer_graph import write_graph
from .symbol_values import Symbols

log = logging.getLogger("bascule")
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], CompiledGraph]
Fails = Callable[[torch.fx.GraphModule, Sequence[Any]], bool]


def minifying(
    strictly: Compile,
    compile_: Compile,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    direction: Direction,
) -> CompiledGraph:
    """`compile_(gm, example_inputs)`, watched at the level that Dynamo's configuration says; `strictly` raises where it may fall back."""
    watch = _Watch(strictly, copy_of(gm), options, direction)
    if config.repro_level == 3:
        watch.write(watch.gm, watch.real(example_inputs))
    try:
        compiled = strictly(copy_of(gm), example_inputs).finished()
    except Exception as error:  # whatever it is
        pass_on(error)
        watch.failed(watch.real(example_inputs), error)
        return compile_(gm, example_inputs)
    called = False

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        nonlocal called
        if called and config.repro_level != 4:
            return compiled(args)
        called = True
        inputs = [copied(value) for value in args]
        try:
            outputs = compiled(args)
        except Exception as error:  # whatever it is
            pass_on(error)
            watch.failed(inputs, error)
            raise
        if config.repro_level == 4 and not draws(gm):
            watch.ran(inputs)
        return outputs

    return CompiledGraph(run)


@dataclass
class _Watch:
    """Writes `gm`, or a smaller graph, where it fails."""

    compile: Compile
    gm: torch.fx.GraphModule
    options: Options
    direction: Direction

    def failed(self, inputs: Sequence[Any], error: Exception) -> None:
        """The graph did not compile, or raised when it was run for `inputs`."""
        self.minify(inputs, lambda gm, inputs: _way(self.error(gm, inputs)) == _way(error))

    def ran(self, inputs: Sequence[Any]) -> None:
        """The graph ran for `inputs`: is what it computes right?"""
        if self.differs(self.gm, inputs):
            self.minify(inputs, self.differs)

    def error(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Exception | None:
        """Compiles and runs `gm`; returns the exception that it raises, where its operators raise none."""
        try:
            compiled = self.compile(copy_of(gm), _values(gm, inputs)).finished()
            compiled([copied(value) for value in inputs])
        except Exception as error:  # whatever it is: the caller compares it
            pass_on(error)
            return error
        return None

    def differs(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
        """Whether `gm`, compiled, computes something else than its operators."""
        given, again = ([copied(value) for value in inputs] for _ in range(2))
        wanted = [*gm(*given), *given]
        got = [*self.compile(copy_of(gm), _values(gm, inputs)).finished()(list(again)), *again]
        return bool(disagreements(gm, inputs, wanted, got))

    def minify(self, inputs: Sequence[Any], fails: Fails) -> None:
        """Writes the smallest graph found that still fails; all of it, where its operators do not run for `inputs`."""

        def still_fails(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
            try:
                return fails(gm, inputs)
            except Exception as error:  # of the operators: what was cut does not fit together
                pass_on(error)
                return False

        with config.patch(repro_after=None), unset_fake_temporarily():
            small, small_inputs = self.gm, list(inputs)
            if config.repro_level != 1:
                try:
                    given = [copied(value) for value in inputs]
                    small, small_inputs = minifier(
                        copy_of(self.gm), given, still_fails, dump_state=lambda gm, inputs: None
                    )
                except Exception as error:
                    pass_on(error)
                    log.warning("the minifier fails (%s: %s): the graph is written whole", type(error).__name__, error)
            _values(small, small_inputs)
            path = self.write(small, small_inputs)
        log.error(
            "a graph that fails was made smaller, from %d to %d nodes: python %s", *map(_size, (self.gm, small)), path
        )

    def write(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Path:
        folder = Path(minifier_dir())
        names = (f"repro{number or ''}.py" for number in count())
        path = next(folder / name for name in names if not (folder / name).exists())
        with unset_fake_temporarily():
            write_graph(path, gm, self.direction, self.options, inputs, data=True)
        return path

    def real(self, inputs: Sequence[Any]) -> list[Any]:
        """Tensors like fake ones: random numbers, and zeros where they are integers, which may be indices."""
        symbols = Symbols.of([node.meta.get("val") for node in self.gm.graph.find_nodes(op="placeholder")], {})

        def real(x: torch.Tensor) -> torch.Tensor:
            sizes, strides = ([symbols.number(n) for n in numbers] for numbers in (x.shape, x.stride()))
            made = torch.empty_strided(sizes, strides, dtype=x.dtype, device=x.device).zero_()
            return made.copy_(torch.randn(sizes)) if x.is_floating_point() and 0 not in strides else made

        with unset_fake_temporarily():
            return [real(x) if isinstance(x, FakeTensor) else symbols.number(x) for x in inputs]


def _way(error: Exception | None) -> tuple[str, ...]:
    """In which way something fails: the error's class, the operator that it is about, the place in the compiler that raised it."""
    if error is None:
        return ()
    message = str(getattr(error, "message", ""))
    return type(error).__name__, getattr(error, "operator", ""), message.partition("\n  in ")[2]


def _values(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The example inputs of a graph that the minifier has cut: fake values of the whole graph, with its symbols, or new ones where
    the minifier has put in nodes of its own."""
    nodes = [node for node in gm.graph.nodes if node.op in ("placeholder", "call_function")]
    if not all("val" in node.meta for node in nodes):
        for node in nodes:
            node.meta.pop("val", None)
    return with_values(gm, inputs)


def _size(gm: torch.fx.GraphModule) -> int:
    return len(gm.graph.nodes)
