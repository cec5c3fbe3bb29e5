"""The Python module of a split graph: it calls the subgraphs, and what runs between them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from bascule.frontend.fx.stack_traces import location_of
from bascule.frontend.graph_split.higher_order_decompositions import has_dense_form, operands
from bascule.frontend.graph_split.split_module import Alone, Solved, Step, Submodule, makes, reads
from bascule.frontend.graph_split.split_point import called_by
from bascule.frontend.importer.nodes import auto_functionalized
from bascule.lowering.program.source import Source

from ..compat.operators.schemas import HigherOrderOperator, OpOverload
from ..compat.tensors.layouts import is_non_overlapping_and_dense_or_false
from ..compiled.eager import BASES

BEGUN_AT = "begun_at"  # the function of `bascule.runtime.module_api` that places bases
RESERVED = {BEGUN_AT, "args", "call", "constants", "given", "operator", "torch"}
_PATHS = {"_operator": "operator", "torch": "torch"}  # where functions that are no operators of PyTorch live
Value = torch.fx.Node | sympy.Symbol


@dataclass(frozen=True)
class Called:
    """A higher-order operator that a split wrapper calls, and does not just hand on."""

    operator: HigherOrderOperator


class SplitWrapper:
    """`source` defines `call(args)`, with the boxed calling convention. It expects `constants`: what `constants` here names, in that order."""

    def __init__(self, gm: torch.fx.GraphModule, steps: Sequence[Step]):
        self.gm, self.steps = gm, steps
        # Name -> a part, a subgraph, a tensor, an operator without a path (`Called`, if it is called), a node with a dense form.
        self.constants: dict[str, Any] = {}
        self.callers: dict[str, str] = {}  # name of a subgraph -> the higher-order operator that calls it
        self.called: dict[HigherOrderOperator, Called] = {}
        self.names: dict[Value, str] = {}
        self.source = Source(set(RESERVED))
        self.places_bases = False
        self._write()

    def _write(self) -> None:
        graph = self.gm.graph
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        for node in graph.nodes:
            if node.op == "get_attr":
                value = self._attribute(node.target)
                if not isinstance(value, torch.fx.GraphModule) or not all(map(has_dense_form, node.users)):
                    self._constant(node.target, value, node)
        self._body(inputs, graph.output_node())
        parts = [name for name, value in self.constants.items() if isinstance(value, Submodule)]
        head = [
            f'"""A graph in {len(parts)} parts, and what runs between them."""',
            "",
            "import operator",
            "",
            "import torch",
            *([f"from bascule.runtime.module_api import {BEGUN_AT}"] if self.places_bases else []),
            "",
            *(f"{name} = constants[{number}]" for number, name in enumerate(self.constants)),
            "",
            "",
            "def call(args):",
        ]
        self.source.insert(0, head)
        for text in ("", "", "call._boxed_call = True"):
            self.source.line(text)

    def _body(self, inputs: list[torch.fx.Node], output: torch.fx.Node) -> None:
        names = [self._name(node, node.name) for node in inputs]
        if names:
            self.source.line(f"    [{', '.join(names)}] = args")
        self.source.line("    args.clear()")
        last = self._last_reads(output)
        self.source.delete(self.names[node] for node in inputs if node not in last)
        for number, step in enumerate(self.steps):
            self._step(step, [self.names[value] for value in dict.fromkeys(reads(step)) if last.get(value) == number])
            self.source.delete(self.names[value] for value in makes(step) if value not in last)
        results = output.args[0]
        listed = results if isinstance(results, list | tuple) else [results]
        self.source.line(f"    return [{', '.join(map(self._text, listed))}]")

    def _last_reads(self, output: torch.fx.Node) -> dict[Value, int]:
        """Value -> the number of the last step that reads it; after all steps for what is returned."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            last.update(dict.fromkeys(reads(step), number))
        last.update(dict.fromkeys(output.all_input_nodes, len(self.steps)))
        return {value: number for value, number in last.items() if getattr(value, "op", "") != "get_attr"}

    def _step(self, step: Step, dead: list[str]) -> None:
        """Writes `step`, after which nothing reads `dead`; a part is given what it may free."""
        line = self.source.line
        match step:
            case Submodule():
                inputs = ", ".join(self.names[value] for value in step.inputs)
                name = self._constant(f"part{sum(isinstance(c, Submodule) for c in self.constants.values())}", step)
                results = ", ".join(self._name(node, node.name) for node in step.outputs)
                line(f"    given = [{inputs}]")
                self.source.delete(dead)
                line(f"    [{results}] = {name}(given)")
                return
            case Solved():
                text = step.source.text(self.names[step.node])
                line(f"    {self._name(step.symbol, str(step.symbol))} = {text}")
            case Alone():
                call = self._call(step.node)
                line(f"    {self._name(step.node, step.node.name)} = {call}", location_of(step.node))
        self.source.delete(dead)

    def _call(self, node: torch.fx.Node) -> str:
        if has_dense_form(node):
            inputs = ", ".join(self.names[x] for x in operands(node))
            return f"{self._constant(node.target.name(), node)}({inputs})"
        target = node.target
        if isinstance(target, HigherOrderOperator):
            for x in node.all_input_nodes:
                if x.op == "get_attr":
                    self.callers[self.names[x]] = called_by(node).name()
            name = self._constant(target.name(), self.called.setdefault(target, Called(target)))
        else:
            name = self._text(target)
        kwargs = {key: self._text(x) for key, x in node.kwargs.items()}
        if target is auto_functionalized:
            offsets = {key: x for key, x in node.kwargs.items() if key.endswith("_storage_offset")}
            kwargs |= {key: str(int(x.meta["val"])) for key, x in offsets.items() if isinstance(x, torch.fx.Node)}
            kwargs[BASES] = f"[{', '.join(map(self._base, node.kwargs[BASES]))}]"
        parts = [*map(self._text, node.args), *(f"{key}={text}" for key, text in kwargs.items())]
        return f"{name}({', '.join(parts)})"

    def _base(self, x: torch.fx.Node) -> str:
        """A tensor that an operator writes views of, which are named by their places in memory, as numbers. A part gives its elements from the
        start of a storage, and without gaps, or, by operators, from where these put them, and an input begins anywhere: they are put where the
        trace has them. Sizes that decide where are guarded."""
        name, fake = self.names[x], x.meta["val"]
        self.places_bases = True
        dense = is_non_overlapping_and_dense_or_false(fake)
        strides = "" if dense else f", {tuple(map(int, fake.stride()))}"
        return f"{BEGUN_AT}({name}, {int(fake.storage_offset())}{strides})"

    def _text(self, value: Any) -> str:
        """An argument as Python reads it."""
        match value:
            case torch.fx.Node():
                return self.names[value]
            case list():
                return f"[{', '.join(map(self._text, value))}]"
            case tuple():
                return f"({''.join(f'{self._text(part)}, ' for part in value).rstrip()})"
            case Mapping():
                return "{" + ", ".join(f"{name!r}: {self._text(part)}" for name, part in value.items()) + "}"
            case slice():
                return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
            case float() if not math.isfinite(value):
                return f'float("{value}")'
            case None | bool() | int() | float() | complex() | str():
                return repr(value)
            case torch.dtype() | torch.layout() | torch.memory_format():
                return str(value)
            case torch.device():
                return f"torch.device({str(value)!r})"
            case OpOverload():
                return f"torch.ops.{value}"
            case HigherOrderOperator():
                return self._constant(value.name(), value)
        if (module := _PATHS.get(getattr(value, "__module__", ""))) is not None:
            return f"{module}.{value.__name__}"
        return self._constant(getattr(value, "__name__", "constant"), value)

    def _attribute(self, target: str) -> Any:
        value = self.gm
        for name in target.split("."):
            value = getattr(value, name)
        return value

    def _constant(self, wish: str, value: Any, node: torch.fx.Node | None = None) -> str:
        """The name of `value` in the module; `node` stands for it."""
        known = next((name for name, other in self.constants.items() if other is value), None)
        name = known or self.source.unique(wish)
        self.constants[name] = value
        if node is not None:
            self.names[node] = name
        return name

    def _name(self, value: Value, wish: str) -> str:
        self.names[value] = self.source.unique(wish)
        return self.names[value]
