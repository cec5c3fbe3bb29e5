"""Inputs that an `autograd.Function` writes and marks dirty, traced as written under autograd.

The body of its forward runs under `no_grad`, where PyTorch notes the writes, and takes the input for one whose gradient they do not touch:
the gradient of the input was that of what the function returned, and an input that had none did not get one (seen in 2.11 to 2.13). Marked
dirty, the input has a node that leads on to those of the function's operands; one written under `no_grad` alone keeps its own, which ends there.

The function that asks is private to PyTorch. Checked on torch 2.11 to 2.14.
"""

import torch

from bascule.compat.graphs.aot_autograd import collect_metadata_analysis

from .patch import attribute

NAME = "are_all_mutations_under_no_grad_or_inference_mode"

_theirs = getattr(collect_metadata_analysis, NAME, None)


def _without_gradients(x: torch.Tensor) -> bool:
    """Whether no write to `x` is one that autograd knows of."""
    assert _theirs is not None, "put in its place alone"
    marked_dirty = x.grad_fn is not None and len(x.grad_fn.next_functions) > 0
    return _theirs(x) and not marked_dirty


dirty_inputs_written = attribute(collect_metadata_analysis, NAME, _theirs, _without_gradients)
