"""Graphs written down as Python files, and run again from them.

A file has a function `graph` and `example_inputs`: tensors of the sizes, strides and dtypes, or those that were saved beside it.
`python FILE` compiles the graph again and compares with its operators.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .errors import CompilerError
from .graph_arguments import copied, differences
from .graph_source import source_of_graph

RUN = """

if __name__ == "__main__":
    from bascule.graph_dumps import replay

    replay(__file__{options})
"""


def write_graph(
    path: Path, gm: torch.fx.GraphModule, data: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
) -> None:
    """Writes `gm` to `path`. `data`: inputs to save beside it (`.pt`). `options`: those to compile it with again."""
    text = source_of_graph(gm)
    if data is not None:
        saved = path.with_suffix(".pt")
        torch.save([copied(value) for value in data], saved)
        text = text[: text.index("def example_inputs")]
        text += 'def example_inputs():\n    return torch.load(__file__.removesuffix(".py") + ".pt")\n'
    plain = {name: value for name, value in (options or {}).items() if not callable(value)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + RUN.format(options=f", {plain!r}" if plain else ""))


def replay(file: str, options: Mapping[str, Any] | None = None) -> None:
    """Compiles the graph in `file` for its example inputs, runs it, and compares with its operators called one by one.

    Raises what the compiler does, or `CompilerError` for other results.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    from .fx_entry import compile_fx_inner

    spec = importlib.util.spec_from_file_location("dumped_graph", file)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    torch.manual_seed(0)
    inputs = module.example_inputs()
    again = [copied(value) for value in inputs]
    gm = make_fx(module.graph, tracing_mode="fake")(*[copied(value) for value in inputs])
    compiled = compile_fx_inner(gm, inputs, options={"on_error": "raise", **(options or {})})
    wanted, got = module.graph(*inputs), compiled(list(again))
    if found := differences([*wanted, *inputs], [*got, *again]):
        raise CompilerError("\n  ".join(["the compiled graph computes other values than its operators:", *found]))
    print(f"{file}: compiled, and the results are those of its operators")
