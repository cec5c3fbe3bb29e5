"""A graph as it is, run by PyTorch with the boxed calling convention."""

from collections.abc import Sequence
from typing import Any

import torch

from bascule.runtime.boxed import Boxed, boxed


def in_sequence(results: Any) -> Sequence[Any]:
    """The results of a graph as a sequence: those of branches and loops may return one value as it is, a boxed function does not."""
    return results if isinstance(results, list | tuple) else (results,)


def operator_by_operator(gm: torch.fx.GraphModule) -> Boxed:
    """The graph as it is, with the boxed calling convention."""

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        values = list(args)
        args.clear()
        return in_sequence(gm(*values))

    return run
