"""An FX graph as the source of a Python file, which `bascule-import` reads."""

import re
from typing import Any

import torch
from torch.fx import GraphModule

HEADER = """
from math import inf, nan

import torch
from torch import device

"""


def source_of_graph(gm: GraphModule) -> str:
    """A file with a function `graph`, which computes what `gm` does, and `example_inputs`.

    Tensors have the sizes, strides and dtypes of the graph's, symbols the sizes that they were seen with; elements are not kept.
    """
    inputs = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    constants = {node.target: getattr(gm, node.target) for node in gm.graph.nodes if node.op == "get_attr"}
    attributes = [f"    {name} = {_creation(value)}" for name, value in constants.items()] or ["    pass"]
    body = re.sub(r"def forward\(self,?\s*", "def graph(", gm.code.strip())
    listed = "".join(f"        {_creation(value)},\n" for value in inputs)
    return "\n".join(
        [
            HEADER,
            "class self:",
            *attributes,
            "\n",
            body,
            "\n",
            f"def example_inputs():\n    return [\n{listed}    ]",
            "",
        ]
    )


def _creation(value: Any) -> str:
    """Source text that makes a value like `value`."""
    if not isinstance(value, torch.Tensor):
        return repr(_number(value))
    size, stride = (tuple(map(_number, numbers)) for numbers in (value.shape, value.stride()))
    return f"torch.empty_strided({size}, {stride}, dtype={value.dtype}, device='{value.device}').zero_()"


def _number(value: Any) -> Any:
    """A symbolic integer as the number it was seen with."""
    return value.node.hint if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else value
