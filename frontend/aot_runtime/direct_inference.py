"""Inference graphs that are called directly: without gradients, and with the versions of what they write raised."""

from collections.abc import Sequence
from typing import Any

import torch

from bascule.compat.operators.autograd_state import set_grad_enabled

from ..fx.boxed import Boxed
from .plain_metadata import Call, is_plain, unwrapped, without_autocast, written_by


def inference(metadata: Any, compiled: Boxed, args: Sequence[Any], amp: bool) -> Call | None:
    """A function that does what the graph `compiled` does, which took `args`; None where AOTAutograd has to.

    `amp`: whether it was traced under autocast.
    """
    if metadata is None or not is_plain(metadata, args):
        return None
    written = written_by(metadata, args)
    if written is None:
        return None
    graph = without_autocast(unwrapped(compiled)) if amp else unwrapped(compiled)
    # Local names: this runs at each call.
    grad_enabled, enable = torch.is_grad_enabled, set_grad_enabled

    def direct(*args: Any) -> Any:
        if written:
            torch.autograd.graph.increment_version([args[i] for i in written])
        if not grad_enabled():
            return list(graph(list(args)))
        enable(False)
        try:
            return list(graph(list(args)))
        finally:
            enable(True)

    return direct
