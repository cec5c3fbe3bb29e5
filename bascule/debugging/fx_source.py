"""An FX graph as the source of a Python file, which `bascule-import` reads."""

import re
from collections.abc import Collection, Iterator
from textwrap import indent
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.frontend.fx.custom_operators import registering_modules
from bascule.runtime.memory.extents import extent

from ..compat.tensors.fake_tensors import FakeTensor, unset_fake_temporarily
from .symbol_values import Numbers, Symbols, source_of

HEADER = """
from math import inf, nan

import torch
from torch import device

"""

INDENT = "    "
LITERAL = 1000  # elements of a constant that are written as text

# dtypes that PyTorch has random numbers of on every device
DRAWN = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)

SAVED = 'saved = torch.load(__file__.removesuffix(".py") + ".pt")\n'

INPUTS = """
def inputs_of({parameters}):
{facts}    return [
{listed}    ]


def example_inputs():
    return inputs_of()
"""


def source_of_graph(gm: GraphModule, known: Numbers | None = None, saved: Collection[Any] = ()) -> str:
    """A file with a function `graph`, which computes what `gm` does, and `example_inputs`; `inputs_of` makes them for other sizes.

    Tensors have the sizes, strides and dtypes of the graph's; `known`: what symbols in these stood for, else as they were seen in the trace (a
    guess, where only data decides). Constants of up to `LITERAL` elements are written down; those `saved`, of `large_constants`, are read from
    a dictionary `saved`. Elements of others, and of inputs, are random in [0, 1) where they are floats, else zero: an index into anything.
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
    held = indent(_attributes(gm, saved) or "pass", INDENT)
    return "\n".join([HEADER, *imports, *([SAVED] if saved else []), "class self:", held, "\n", body, "", made])


def large_constants(gm: GraphModule, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The constants of `gm`, and of the graphs that its operators call, that are not written down: with the path of their names."""
    for name, value in _held(gm):
        if isinstance(value, GraphModule):
            yield from large_constants(value, f"{path}{name}.")
        elif isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and not _is_short(value):
            yield f"{path}{name}", value


def _held(gm: GraphModule) -> Iterator[tuple[str, Any]]:
    """The tensors that `gm` holds, and the graphs that its operators call, each once."""
    return ((name, getattr(gm, name)) for name in dict.fromkeys(x.target for x in gm.graph.find_nodes(op="get_attr")))


def _attributes(gm: GraphModule, saved: Collection[Any], path: str = "") -> str:
    """Writes the attributes that `gm` holds into the class of `self`."""
    lines = []
    for name, value in _held(gm):
        if isinstance(value, GraphModule):
            call = value.code.strip().replace("def forward(", "def __call__(")
            inner = f"{_attributes(value, saved, f'{path}{name}.')}\n{call}"
            lines += [f"class {name}:", indent(inner, INDENT), f"{name} = {name}()"]
        else:
            kept = path + name in saved
            lines.append(f"{name} = {f'saved[{path + name!r}]' if kept else _constant(value)}")
    return "\n".join(lines)


def _constant(value: Any) -> str:
    """Source text of what a graph holds."""
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or not _is_short(value):
        return _creation(value, Symbols({}))
    with unset_fake_temporarily(), torch.no_grad():
        memory = value.as_strided((extent(value.shape, value.stride()),), (1,))
        elements = ", ".join(map(_literal, memory.tolist()))
    size, stride = ((*numbers,) for numbers in (value.shape, value.stride()))
    return f"torch.tensor([{elements}], dtype={value.dtype}, device='{value.device}').as_strided({size}, {stride})"


def _is_short(value: torch.Tensor) -> bool:
    """Whether the memory of `value` is written down."""
    return extent(value.shape, value.stride()) <= LITERAL


def _literal(number: Any) -> str:
    return f"complex({number.real!r}, {number.imag!r})" if isinstance(number, complex) else repr(number)


def _creation(value: Any, symbols: Symbols) -> str:
    """Source text that makes a value like `value`."""
    if not isinstance(value, torch.Tensor):
        return source_of(value)
    size, stride = (f"({''.join(f'{source_of(n)}, ' for n in numbers)})" for numbers in (value.shape, value.stride()))
    expanded = any(symbols.number(n) > 1 and step == 0 for n, step in zip(value.shape, value.stride()))
    fill = "uniform_" if value.dtype in DRAWN and not expanded else "zero_"  # PyTorch fills no memory twice
    return f"torch.empty_strided({size}, {stride}, dtype={value.dtype}, device='{value.device}').{fill}()"
