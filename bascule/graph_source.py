"""An FX graph as the source of a Python file, which `bascule-import` reads."""

import re
from textwrap import indent
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.frontend.custom_operators import registering_modules

from .graph_symbols import Numbers, Symbols, source_of

HEADER = """
from math import inf, nan

import torch
from torch import device

"""

INDENT = "    "

# dtypes that PyTorch has random numbers of on every device
DRAWN = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)

INPUTS = """
def inputs_of({parameters}):
{facts}    return [
{listed}    ]


def example_inputs():
    return inputs_of()
"""


def source_of_graph(gm: GraphModule, known: Numbers | None = None) -> str:
    """A file with a function `graph`, which computes what `gm` does, and `example_inputs`; `inputs_of` makes them for other sizes.

    Tensors have the sizes, strides and dtypes of the graph's; `known`: what symbols in these stood for, else as they were seen in the trace (a
    guess, where only data decides). Elements are not kept: those of floats are random in [0, 1), others zero, which is an index into anything.
    """
    inputs = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    symbols = Symbols.of(inputs, known or {})
    body = re.sub(r"def forward\(self,?\s*", "def graph(", gm.code.strip())
    made = INPUTS.format(
        parameters=", ".join(f"{symbol}={number!r}" for symbol, number in symbols.numbers.items()),
        facts="".join(f"    torch._check({fact})\n" for fact in symbols.facts),
        listed="".join(f"        {_creation(value, symbols)},\n" for value in inputs),
    )
    # What registers operators of others; a script's has to be imported by hand.
    imports = [f"import {module}" for module in registering_modules(gm) if module != "__main__"]
    return "\n".join([HEADER, *imports, "class self:", indent(_attributes(gm) or "pass", INDENT), "\n", body, "", made])


def _attributes(gm: GraphModule) -> str:
    """What stands in the class of `self` for the tensors that `gm` holds, and for the graphs that its operators call."""
    lines = []
    for name in dict.fromkeys(node.target for node in gm.graph.find_nodes(op="get_attr")):
        value = getattr(gm, name)
        if isinstance(value, GraphModule):
            call = value.code.strip().replace("def forward(", "def __call__(")
            lines += [f"class {name}:", indent(f"{_attributes(value)}\n{call}", INDENT), f"{name} = {name}()"]
        else:
            lines.append(f"{name} = {_creation(value, Symbols({}))}")
    return "\n".join(lines)


def _creation(value: Any, symbols: Symbols) -> str:
    """Source text that makes a value like `value`."""
    if not isinstance(value, torch.Tensor):
        return source_of(value)
    size, stride = (f"({''.join(f'{source_of(n)}, ' for n in numbers)})" for numbers in (value.shape, value.stride()))
    expanded = any(symbols.number(n) > 1 and step == 0 for n, step in zip(value.shape, value.stride()))
    fill = "uniform_" if value.dtype in DRAWN and not expanded else "zero_"  # PyTorch fills no memory twice
    return f"torch.empty_strided({size}, {stride}, dtype={value.dtype}, device='{value.device}').{fill}()"
