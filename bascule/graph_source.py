"""An FX graph as the source of a Python file, which `bascule-import` reads."""

import re
from textwrap import indent
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.frontend.tracing import hint_or_guess

HEADER = """
from math import inf, nan

import torch
from torch import device

"""

INDENT = "    "

# dtypes that PyTorch has random numbers of on every device
DRAWN = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)


def source_of_graph(gm: GraphModule) -> str:
    """A file with a function `graph`, which computes what `gm` does, and `example_inputs`.

    Tensors have the sizes, strides and dtypes of the graph's, symbols the sizes that they were seen with (a guess, where only data decides);
    elements are not kept: those of floats are random in [0, 1), others zero, which is an index into anything.
    """
    inputs = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    body = re.sub(r"def forward\(self,?\s*", "def graph(", gm.code.strip())
    listed = "".join(f"        {_creation(value)},\n" for value in inputs)
    return "\n".join(
        [
            HEADER,
            "class self:",
            indent(_attributes(gm) or "pass", INDENT),
            "\n",
            body,
            "\n",
            f"def example_inputs():\n    return [\n{listed}    ]",
            "",
        ]
    )


def _attributes(gm: GraphModule) -> str:
    """What stands in the class of `self` for the tensors that `gm` holds, and for the graphs that its operators call."""
    lines = []
    for name in dict.fromkeys(node.target for node in gm.graph.find_nodes(op="get_attr")):
        value = getattr(gm, name)
        if isinstance(value, GraphModule):
            call = value.code.strip().replace("def forward(", "def __call__(")
            lines += [f"class {name}:", indent(f"{_attributes(value)}\n{call}", INDENT), f"{name} = {name}()"]
        else:
            lines.append(f"{name} = {_creation(value)}")
    return "\n".join(lines)


def _creation(value: Any) -> str:
    """Source text that makes a value like `value`."""
    if not isinstance(value, torch.Tensor):
        return repr(hint_or_guess(value))
    size, stride = (tuple(map(hint_or_guess, numbers)) for numbers in (value.shape, value.stride()))
    expanded = any(n > 1 and step == 0 for n, step in zip(size, stride))  # PyTorch fills no memory twice
    fill = "uniform_" if value.dtype in DRAWN and not expanded else "zero_"
    return f"torch.empty_strided({size}, {stride}, dtype={value.dtype}, device='{value.device}').{fill}()"
